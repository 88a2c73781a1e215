sig pool : f32[n] -> f32[n / 2] where n % 2 = 1
