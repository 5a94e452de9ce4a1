"""Specs of every kind that has fused passes, small."""

from __future__ import annotations

from pathlib import Path

BELL = (Path(__file__).parents[2] / "specs" / "gelu_tanh.yaml").read_text(encoding="utf-8")
GATE = "op: gate\ntensors: {x: , beta: }\noutputs: {y: x * sigmoid(beta * x)}\n"
CHANNEL = """
op: channel
tensors:
  x: {shape: [N, C, T]}
  alpha: {shape: [C], domain: "(0, oo)"}
outputs: {y: x + sin(alpha * x)**2 / alpha}
"""
LOSS = """
op: loss
tensors: {input: , target: }
hyperparameters:
  delta: {type: float, default: 1.0, domain: "(0, oo)"}
  reduction: {type: str, default: mean, choices: [none, mean, sum]}
let: {each: "where(abs(input - target) <= delta, (input - target)**2 / 2, delta * (abs(input - target) - delta/2))"}
outputs: {loss: 'where(reduction == "mean", mean(each), where(reduction == "sum", sum(each), each))'}
"""
NORM = """
op: norm
tensors: {x: {shape: [..., D]}, weight: {shape: [D]}}
hyperparameters: {eps: {type: float, default: 1.0e-6, domain: "(0, oo)"}}
outputs: {y: 'x / sqrt(mean(x**2, dim=-1, keepdim=True) + eps) * weight'}
"""
LAYER = """
op: layer
tensors: {x: {shape: [..., D]}, weight: {shape: [D]}, bias: {shape: [D]}}
let: {c: "x - mean(x, dim=-1, keepdim=True)"}
outputs: {y: 'c / sqrt(mean(c**2, dim=-1, keepdim=True) + 1e-5) * weight + bias'}
"""
ROWS = "op: rows\ntensors: {x: }\noutputs: {y: 'logsumexp(x, dim=-1)'}\ntest: {shapes: {x: [3, 5]}}\n"
GAMMA = 'op: gamma\ntensors: {x: {domain: "(0, oo)"}}\noutputs: {y: digamma(x)}\n'
MEAN = "op: mean_of\ntensors: {x: {shape: [N, C, T]}}\noutputs: {y: 'mean(sin(x)**2, dim=1)'}\n"
KEPT = """
op: kept
tensors: {x: {shape: [N, C]}, t: {shape: [C]}}
outputs: {y: 'sum((x - t)**2, dim=0, keepdim=True)'}
"""
LAST = "op: last\ntensors: {x: }\noutputs: {y: 'mean(exp(x), dim=[-2, -1])'}\ntest: {shapes: {x: [2, 3, 4]}}\n"
SCALE = "op: scale\ntensors: {x: , z: }\noutputs: {y: x * z}\n"
TWO = "op: two\ntensors: {x: , z: }\noutputs: {a: x * exp(z), b: x + z}\n"
SHIFTED = """
op: shifted
tensors: {x: {shape: [N, D]}, t: {shape: [N, 1]}}
outputs: {y: '2 * x * sin(t) + t - mean(x, dim=-1, keepdim=True)'}
"""
HEADS = """
op: heads
tensors: {x: {shape: [B, H, D]}, s: {shape: [H, 1]}, w: {shape: [1, 1, D]}}
outputs: {y: 'x * s * w / (norm(x, dim=-1, keepdim=True) + 1)'}
"""
MASKED = "op: masked\ntensors: {x: , keep: {dtype: bool}}\noutputs: {y: 'where(keep, x**2, -x)'}\n"
CHOSEN = """
op: chosen
tensors: {x: , a: }
hyperparameters: {s: 1.5}
outputs: {y: '(s*a + s*x) / (1 + (where(a != x, 1/3, x) - x)**2)'}
"""
SCALED = "op: scaled\ntensors: {x: , t: }\noutputs: {y: 'sum(x, dim=-1, keepdim=True) * t'}\n"
SIGNED = "op: signed\ntensors: {x: }\noutputs: {y: sin(x), positive: {expr: x > 0, grad: false}}\n"
SCALED_ROWS = """
op: scaled_rows
tensors: {x: {shape: [N, D]}, t: {shape: [N, 1]}}
outputs: {y: 'logsumexp(x, dim=-1, keepdim=True) * t'}
"""
SCORED = """
op: scored
tensors: {x: {shape: [N, K]}, t: {shape: [N]}}
outputs: {y: 'logsumexp(x, dim=-1) - sin(t)'}
"""
SOFT = "op: soft\ntensors: {x: , w: }\noutputs: {y: 'softmax(w * x, dim=-1) * w'}\n"
ENTROPY = """
op: entropy
tensors: {x: {shape: [N, K]}, p: {shape: [N, K]}}
hyperparameters: {reduction: {type: str, default: mean, choices: [none, mean, sum]}}
let: {each: "-sum(p * log_softmax(x, dim=-1), dim=-1)"}
outputs: {loss: 'where(reduction == "mean", mean(each), where(reduction == "sum", sum(each), each))'}
"""
DISTANCE = """
op: distance
tensors: {x: {shape: [N, K]}, p: {shape: [N, K]}}
outputs: {y: 'mean((p - softmax(x, dim=-1))**2)'}
"""
OVERLAP = """
op: overlap
tensors: {x: , t: }
hyperparameters: {smooth: 1.0, gamma: {type: float, default: 0.75, domain: "(0, oo)"}}
let: {joint: sum(x * t)}
outputs: {y: '(1 - (2*joint + smooth) / (sum(x**2) + sum(t**2) + smooth))**gamma', n: log(1 + joint)}
"""
LENGTHS = "op: lengths\ntensors: {a: , b: }\noutputs: {y: 'sum(a, dim=-1) * mean(b, dim=-1)'}\n"
PARTS = "op: parts\ntensors: {a: , b: }\noutputs: {y: 'sum(a, dim=-1) + logsumexp(a * b, dim=-1)'}\n"
OPTIONAL = """
op: optional
tensors: {x: , w: {shape: [C]}, b: {shape: [C], default: 0}}
outputs: {y: tanh(x) * w + b}
"""
CONFIDENT = """
op: confident
tensors: {x: }
outputs: {p: 'softmax(x, dim=-1)', h: '-sum(softmax(x, dim=-1) * log_softmax(x, dim=-1), dim=-1)'}
"""
WAVES = "op: waves\ntensors: {x: , w: }\noutputs: {y: 'sum(sin(w * x), dim=-1)'}\n"
SPREAD = """
op: spread
tensors: {x: }
hyperparameters: {c: {type: int, default: 1}}
outputs: {y: 'var(x, dim=-1, correction=c)'}
"""
LABELS = """
op: labels
tensors: {x: {shape: [N, C]}, i: {shape: [N], dtype: int}}
outputs: {y: "cross_entropy(x, i, reduction='none')"}
"""
WEIGHTED_LABELS = """
op: weighted_labels
tensors: {x: {shape: [B, N, C]}, w: {shape: [C]}, i: {shape: [B, N], dtype: int}}
hyperparameters: {ignored: {type: int, default: -1}, e: {type: float, default: 0.1, domain: "[0, 1]"}}
let: {logs: "log_softmax(x, dim=-1)", own: "where(i == ignored, 0, i)"}
outputs:
  y: "where(i == ignored, 0, -(1 - e) * w[own] * gather(logs, -1, own[..., None])[..., 0] - e * mean(logs * w, dim=-1))"
"""
MEAN_LABELS = """
op: mean_labels
tensors: {x: {shape: [N, C]}, w: {shape: [C], grad: false}, i: {shape: [N], dtype: int}}
outputs: {y: "cross_entropy(x, i, w, ignore_index=-100, label_smoothing=0.1)"}
"""
PICKED = """
op: picked
tensors: {x: {shape: [N, C]}, i: {shape: [N], dtype: int}}
outputs: {y: "exp(x - gather(x, -1, i[:, None])) * where(arange(C) < i[:, None], 2, 1)"}
"""
ROTARY = """
op: rotary
tensors: {x: {shape: [B, H, T, D]}, c: {shape: [T, D]}, s: {shape: [T, D], grad: false}}
let: {h: "chunk(x, 2, dim=-1)"}
outputs: {y: "x * c + cat([-h[1], h[0]], dim=-1) * s"}
test: {shapes: {x: [2, 2, 3, 4], c: [3, 4], s: [3, 4]}}
"""
PACKED = """
op: packed
tensors: {x: {shape: [N, D]}, bias: {shape: [D]}, w: {shape: [N, 1]}}
let: {h: "chunk(x + bias, 2, dim=-1)"}
outputs: {y: "silu(h[0]) * h[1] * w"}
test: {shapes: {x: [3, 4], bias: [4], w: [3, 1]}}
"""
GATED_CHANNELS = """
op: gated_channels
tensors: {x: {shape: [B, C, H, W]}, bias: {shape: [C, 1, 1]}}
let: {h: "chunk(x * bias, 2, dim=1)"}
outputs: {y: "h[0] * sigmoid(h[1])"}
test: {shapes: {x: [2, 4, 3, 2], bias: [4, 1, 1]}}
"""
PARTLY_TURNED = """
op: partly_turned
tensors: {x: {shape: [B, T, 12]}, c: {shape: [T, 4], grad: false}, s: {shape: [T, 4], grad: false}}
let: {a: "x[..., :4]", b: "x[..., 4:8]"}
outputs: {y: "cat([a * c - b * s, a * s + b * c, sin(x[..., 8:])], dim=-1)"}
"""
JOINED = """
op: joined
tensors: {a: {shape: [N, P]}, b: {shape: [N, P]}}
outputs: {y: "cat([sin(a) * exp(a), tanh(b)], dim=-1)", z: "cat([b, a * b], dim=-1)"}
"""
FIRST_OF_ALL = """
op: first_of_all
tensors: {x: {shape: [N, 6]}}
outputs: {y: "silu(x[:, :2]) * sin(x[:, :2])"}
"""
TURNED_ROWS = """
op: turned_rows
tensors: {x: {shape: [N, D]}}
let: {h: "chunk(x, 2, dim=-1)", m: "mean(x**2, dim=-1, keepdim=True)"}
outputs: {y: "cat([h[1], sin(h[0])], dim=-1) / sqrt(m + 1)"}
test: {shapes: {x: [3, 4]}}
"""
PAIRS = """
op: pairs
tensors: {x: {shape: [B, T, D]}, c: {shape: [T, P]}, s: {shape: [T, P], grad: false}}
let: {p: "unflatten(x, -1, P, 2)", e: "p[..., 0]", o: "p[..., 1]"}
outputs: {y: "flatten(stack([e * c - o * s, e * s + o * c], dim=-1), -2)"}
test: {shapes: {x: [2, 3, 4], c: [3, 2], s: [3, 2]}}
"""
EVERY_OTHER = """
op: every_other
tensors: {x: {shape: [N, D]}, w: {shape: [N, 1]}}
outputs: {y: "silu(x[..., ::2]) * x[..., 1::2] * w"}
test: {shapes: {x: [3, 4], w: [3, 1]}}
"""
STEP = """
op: step
tensors: {p: , g: , m: }
hyperparameters: {rate: 0.1, decay: 0.9}
let: {new: decay*m + (1 - decay)*g}
outputs: {q: p - rate*new*rsqrt(1 + new**2), n: new}
"""
ROTATED = """
op: rotated
tensors: {a: {shape: [B, N]}, b: {shape: [B, N]}, u: {shape: [B, N]}, v: {shape: [B, N]}, t: {shape: [N]}}
outputs: {c: "cos(t)*a - sin(t)*b + u", d: "sin(t)*a + cos(t)*b + v"}
"""
CODED = """
op: coded
tensors: {x: {shape: [N, D]}, y: {shape: [N, D]}, z: {shape: [N, D]}}
outputs:
  loss: mean((x - y)**2)
  gate: tanh(z) + sin(x)
  dots: sum(x*z, dim=-1)
  ratio: sum(exp(x)*y) / (1 + sum(z**2))
"""
ADDED = """
op: added
tensors: {x: {shape: [..., D]}, y: {shape: [..., D]}, c: {shape: []}}
let: {n: "sum(x*y, dim=-1, keepdim=True)"}
outputs: {z: c*n*x/(1 + n**2) + y}
"""
RANKED = """
op: ranked
tensors: {x: {shape: [N, 1]}, cuts: {shape: [K]}, label: {shape: [N], dtype: int}}
outputs: {loss: "mean(sum(where(label[:, None] > arange(K), softplus(-x - cuts), softplus(x + cuts)), dim=-1))"}
"""
CRITIC = """
op: critic
tensors: {d: {shape: [B]}, g: {shape: [B, D]}}
outputs: {loss: "mean(relu(1 - d)) + mean((norm(g, dim=1) - 1)**2) + sum(d**2)/sum(g**2)"}
"""
WEIGHTED = """
op: weighted
tensors: {x: {shape: [N, D]}, t: {shape: [N]}}
outputs: {y: "t**2 * logsumexp(x, dim=-1)"}
"""
SETTINGS = """
op: settings
tensors: {x: }
hyperparameters: {a: 1.3, n: 3}
outputs:
  y: x*sigmoid(a) + x**2*(n % 2) + sign(a)*x + relu(a) + logaddexp(a, n)*x + heaviside(a, 0.5) + sinc(a)*x
  z: xlogy(a, n) * x + xlog1py(a, n)*sin(x) + (a % 0.7)
"""
UNITED = """
op: united
tensors: {a: , b: }
let: {h: "clamp(0.5 + 5*(b - a), 0, 1)"}
outputs:
  d: b*(1 - h) + a*h - 0.1*h*(1 - h)
  e: -0.1*log(exp(-10*a) + exp(-10*b))
"""
RAY = """
op: ray
tensors: {o: {shape: [N, D]}, d: {shape: [N, D]}, c: {shape: [D]}, r: {shape: []}}
let: {b: "sum((o - c)*d, dim=-1)", disc: "b**2 - sum((o - c)**2, dim=-1) + r**2"}
outputs: {t: "where(disc > 0, -b - sqrt(disc), -1)"}
"""
TEMPERED = """
op: tempered
tensors: {x: {shape: [N, D]}, t: {shape: [N]}, c: {shape: []}}
outputs: {y: "c * mean((x*t[:, None])**2 * sigmoid(x))"}
"""
UNCERTAIN = """
op: uncertain
tensors: {x: {shape: [N, D]}, w: {shape: [N, D]}, s: {shape: []}}
outputs:
  y: exp(-s)*mean((x - w)**2) + s
  risk: s + mean(relu(x - s))/0.05
  z: log(s*sum(exp(x))) + s**2*mean(w)
  both: s*sum(x)*sum(w) + s
  one: mean(w) + s**3
  number: log(1 + s**2)
"""
FLAGGED = """
op: flagged
tensors: {x: {shape: [B, N]}}
hyperparameters: {flag: true}
outputs: {y: "where(flag, x, x / x) * norm(x, dim=1, keepdim=True)"}
"""
CROSSED = """
op: crossed
tensors: {a: {shape: [N, 3]}, b: {shape: [N, 3]}, c: {shape: [3]}}
let: {u: a - c}
outputs:
  v: "stack([u[:, 1]*b[:, 2] - u[:, 2]*b[:, 1], tanh(u[:, 2]*b[:, 0]) - u[:, 0]*b[:, 2], u[:, 0]*b[:, 1]], dim=-1)"
"""
SPUN = """
op: spun
tensors: {p: {shape: [..., 2]}, q: {shape: [..., 2]}}
outputs: {r: "stack([p[..., 0]*q[..., 0] - p[..., 1]*q[..., 1], p[..., 0]*q[..., 1] + p[..., 1]*q[..., 0]], dim=-1)"}
"""
ANGLED = """
op: angled
tensors: {a: {shape: [N, 3]}, b: {shape: [N, 3]}, k: {shape: [N]}}
let: {x: "a[:, 1]*b[:, 2] - a[:, 2]*b[:, 1]"}
outputs: {e: "k * atan2(norm(a, dim=-1) + x**2, sum(a*b, dim=-1)) + amax(b, dim=-1)"}
"""
SQUARE = """
op: square
tensors: {x: {shape: [N, N]}, w: {shape: [N]}}
outputs: {y: mean(w**2) + mean(x*w), z: "exp(w)*amax(x, dim=-1)"}
"""
COUPLING = """
op: coupling
tensors: {x: , s: , t: }
let: {ls: tanh(s)}
outputs: {y: x * exp(ls) + t, logdet: 'sum(ls, dim=-1)'}
"""
RADIAL = """
op: radial
tensors: {z: {shape: [N, D]}, b: {shape: [N]}}
let: {r: "sqrt(1 + sum(z**2, dim=-1))"}
outputs: {y: 'z + tanh(b / r)[:, None] * z', logdet: log1p(b**2 * r)}
"""
STRAIGHT = """
op: straight
tensors: {x: , s: {domain: "(0, oo)"}}
outputs: {y: 's * (x / s + detach(round(clamp(x / s, -8, 7)) - x / s))'}
"""
