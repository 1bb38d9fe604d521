// What of a probe's fits can be drawn over its points. Only figures that the probe itself
// states are drawn; nothing is fitted here.

import type { ProbeDoc } from '../api'
import { extent } from './scale'

/** Figures that are a place along an axis: a knee, a capacity, a level. Others are ratios and rates, and stand in the table only. */
const places = ['knee', 'bend', 'cache', 'capacity', 'kv capacity', 'falls at', 'flat', 'step', 'connect', 'stall', 'events']

export interface Drawn {
  curve: { x: number; y: number }[]
  marks: { name: string; axis: 'x' | 'y'; at: number }[]
}

/** The fitted curve, where the probe says one, and the places of its figures that lie within what was measured. */
export function curveOf(p: ProbeDoc): Drawn {
  const xs = extent(p.points.map(v => v.x))
  const ys = extent(p.points.map(v => v.y))
  const out: Drawn = { curve: [], marks: [] }
  if (xs === null || ys === null) return out
  const value = (name: string): number | null => p.fits.find(f => f.name === name)?.value ?? null
  for (const f of p.fits) {
    if (f.value === null || !places.includes(f.name)) continue
    // A capacity of tokens has the unit of both axes: it is what was held, which is upwards.
    if (f.unit === p.y.unit && f.value >= 0 && f.value <= ys[1] * 1.5) out.marks.push({ name: f.name, axis: 'y', at: f.value })
    else if (f.unit === p.x.unit && f.value >= xs[0] && f.value <= xs[1]) out.marks.push({ name: f.name, axis: 'x', at: f.value })
  }
  // The time to the first token against the prompt is a + b n + c n²; the probe
  // states a as base, 1/b as the speed and b/c as the bend.
  const base = value('base')
  const speed = value('prefill speed')
  if (base !== null && speed !== null && speed > 0 && p.x.unit === 'tokens' && p.y.unit === 'ms') {
    const b = 1000 / speed
    const bend = value('bend')
    const c = bend !== null && bend > 0 ? b / bend : 0
    const [lo, hi] = xs
    for (let i = 0; i <= 64; i++) {
      // Evenly spaced on a logarithmic axis too, where most points are.
      const x = lo > 0 ? lo * (hi / lo) ** (i / 64) : lo + (hi - lo) * i / 64
      out.curve.push({ x, y: base + b * x + c * x * x })
    }
  }
  return out
}
