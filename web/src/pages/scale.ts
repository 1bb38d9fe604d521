// Scales and ticks of the drawings on these pages: from values to pixels and
// back. The lanes have their own (uPlot's).

/** A mapping of the values from lo to hi onto the pixels from a to b. */
export interface Scale {
  lo: number
  hi: number
  log: boolean
  px: (v: number) => number
  value: (px: number) => number
}

/** A linear scale. An empty range is widened, so that a single value has a place. */
export function linear(lo: number, hi: number, a: number, b: number): Scale {
  if (!(hi > lo)) {
    const pad = Math.abs(lo) * 0.05 || 1
    lo -= pad
    hi += pad
  }
  return {
    lo, hi, log: false,
    px: v => a + (v - lo) / (hi - lo) * (b - a),
    value: p => lo + (p - a) / (b - a) * (hi - lo),
  }
}

/** A logarithmic scale of values above 0; what is not above 0 lies at its lower end. */
export function logarithmic(lo: number, hi: number, a: number, b: number): Scale {
  if (!(lo > 0)) lo = hi > 0 ? hi / 1000 : 0.1
  if (!(hi > lo)) {
    hi = lo * 1.5
    lo /= 1.5
  }
  const l0 = Math.log(lo)
  const l1 = Math.log(hi)
  return {
    lo, hi, log: true,
    px: v => a + ((v > lo ? Math.log(v) : l0) - l0) / (l1 - l0) * (b - a),
    value: p => Math.exp(l0 + (p - a) / (b - a) * (l1 - l0)),
  }
}

/** The step of 1, 2 or 5 times a power of ten that cuts span into at most n parts. */
export function niceStep(span: number, n: number): number {
  const raw = span / Math.max(n, 1)
  const power = 10 ** Math.floor(Math.log10(raw))
  for (const m of [1, 2, 5, 10]) if (m * power >= raw * (1 - 1e-9)) return m * power
  return 10 * power
}

/** Ticks of a scale, at most about n of them. */
export function ticks(s: Scale, n: number): number[] {
  return s.log ? logTicks(s.lo, s.hi, n) : linearTicks(s.lo, s.hi, n)
}

function linearTicks(lo: number, hi: number, n: number): number[] {
  const step = niceStep(hi - lo, n)
  const out: number[] = []
  // Multiples of whole numbers of steps, so that no error adds up.
  for (let i = Math.ceil(lo / step - 1e-9); i * step <= hi + step * 1e-9 && out.length < 200; i++) out.push(clean(i * step))
  return out
}

function logTicks(lo: number, hi: number, n: number): number[] {
  const from = Math.floor(Math.log10(lo) + 1e-9)
  const to = Math.ceil(Math.log10(hi) - 1e-9)
  const decades = Math.log10(hi / lo)
  const marks = decades * 2 <= n ? [1, 2, 5] : [1]
  const every = Math.max(1, Math.ceil(decades / Math.max(n, 1)))
  const out: number[] = []
  for (let e = from; e <= to && out.length < 200; e++) {
    if (marks.length === 1 && (e - from) % every !== 0) continue
    for (const m of marks) {
      const v = clean(m * 10 ** e)
      if (v >= lo * (1 - 1e-9) && v <= hi * (1 + 1e-9)) out.push(v)
    }
  }
  // Within part of a decade most of the marks may lie outside.
  return out.length >= 3 || (out.length === 2 && hi / lo > 5) ? out : linearTicks(lo, hi, n)
}

const clean = (v: number): number => Number(v.toPrecision(12))

/** The least and greatest of what is known, or null when nothing is. */
export function extent(values: Iterable<number | null | undefined>): [number, number] | null {
  let lo = Infinity
  let hi = -Infinity
  for (const v of values) {
    if (v === null || v === undefined || !Number.isFinite(v)) continue
    if (v < lo) lo = v
    if (v > hi) hi = v
  }
  return lo <= hi ? [lo, hi] : null
}
