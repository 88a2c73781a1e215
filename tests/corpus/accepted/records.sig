sig length : point -> f32
sig move : f32[..s] -> point -> { x : f32[..s], y : f32[..s] }
sig taxicab : { x : 'a[..s], y : 'a[..s] } -> 'a[..s]
sig make : 'A -> 'B -> { left : 'A, right : 'B }
sig left_of : 'A -> 'A
sig late : point -> f32
sig origin : { x : f32, y : f32 }
