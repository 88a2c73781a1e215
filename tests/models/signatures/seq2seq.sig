sig step : nn.lstm[n, d, d] -> f32[b, d] -> (f32[n, b, d], f32[n, b, d]) -> (f32[n, b, d], f32[n, b, d])
sig encode : seq2seq[v, u, n, d] -> i32[b, s] -> (f32[n, b, d], f32[n, b, d])
sig logits : seq2seq[v, u, n, d] -> i32[b, s] -> i32[b, t] -> f32[b, t, u] where n >= 1
sig translate : {t} -> seq2seq[v, u, n, d] -> i32 -> i32[b, s] -> i32[b, t] where u >= 1, n >= 1
sig translate_2014 : {t} -> seq2seq[160000, 80000, 4, 1000] -> i32 -> i32[b, s] -> i32[b, t]
