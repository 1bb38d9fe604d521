// The geometry of the scatter of requests: what lies under the pointer, and
// what a dragged box holds. It never draws.

import { extent, linear, logarithmic, type Scale } from './scale'

/** The points and tiles that the scatter draws, as the server gives them. */
export interface Dots {
  matched: number
  colors: string[]
  points: { n: number[]; x: number[]; y: number[]; c: number[] }
  tiles: { x0: number[]; x1: number[]; y0: number[]; y1: number[]; c: number[]; count: number[] } | null
  y_log: boolean
}

/** Whether nothing is there to draw: then there are no axes either, which would have to be made up. */
export const bare = (d: Dots): boolean => d.points.n.length === 0 && !d.tiles?.count.length

/** The plot inside its canvas, in CSS pixels. */
export interface Frame { left: number; top: number; right: number; bottom: number }

/** A box in values: what the rows, the common traits and the link are asked for. */
export interface Box { x0: number; x1: number; y0: number; y1: number }

export interface Axes { x: Scale; y: Scale }

/** The scales of a frame: time from from to to, and every value with room above and below. */
export function axes(d: Dots, from: number, to: number, frame: Frame, log: boolean): Axes {
  const range = extent(values(d)) ?? [1, 10]
  let [lo, hi] = range
  const x = linear(from, to, frame.left, frame.right)
  if (log && hi > 0) {
    if (lo <= 0) lo = smallestAbove0(d) ?? hi
    const room = Math.max((hi / lo) ** 0.04, 1.05)
    return { x, y: logarithmic(lo / room, hi * room, frame.bottom, frame.top) }
  }
  return { x, y: linear(Math.min(0, lo), hi > 0 ? hi * 1.05 : 1, frame.bottom, frame.top) }
}

function* values(d: Dots): Iterable<number> {
  yield* d.points.y
  if (d.tiles !== null) {
    yield* d.tiles.y0
    yield* d.tiles.y1
  }
}

function smallestAbove0(d: Dots): number | null {
  let least = Infinity
  for (const v of values(d)) if (v > 0 && v < least) least = v
  return least === Infinity ? null : least
}

/** What is under the pointer: the place of a point or of a tile in their lists. */
export type Hit = { kind: 'point'; i: number } | { kind: 'tile'; i: number } | null

/** The nearest point within reach pixels, else the tile under (px, py). */
export function hit(d: Dots, a: Axes, px: number, py: number, reach = 12): Hit {
  let best = -1
  let least = reach * reach
  const { x, y } = d.points
  for (let i = 0; i < x.length; i++) {
    const dx = a.x.px(x[i]!) - px
    if (dx > reach || dx < -reach) continue
    const dy = a.y.px(y[i]!) - py
    const r = dx * dx + dy * dy
    if (r <= least) [best, least] = [i, r]
  }
  if (best >= 0) return { kind: 'point', i: best }
  const t = d.tiles
  if (t !== null) {
    const vx = a.x.value(px)
    const vy = a.y.value(py)
    for (let i = 0; i < t.count.length; i++) {
      if (vx >= t.x0[i]! && vx <= t.x1[i]! && vy >= t.y0[i]! && vy <= t.y1[i]!) return { kind: 'tile', i }
    }
  }
  return null
}

/** The box that was dragged from one corner to another, or null when it is a click. */
export function boxOf(a: Axes, frame: Frame, x0: number, y0: number, x1: number, y1: number): Box | null {
  if (Math.abs(x1 - x0) < 4 && Math.abs(y1 - y0) < 4) return null
  const cx = (v: number) => Math.min(Math.max(v, frame.left), frame.right)
  const cy = (v: number) => Math.min(Math.max(v, frame.top), frame.bottom)
  // A box along the lower edge takes in what lies below the scale as well, as
  // values of 0 do on a logarithmic one.
  const bottom = Math.max(cy(y0), cy(y1))
  return {
    x0: a.x.value(Math.min(cx(x0), cx(x1))),
    x1: a.x.value(Math.max(cx(x0), cx(x1))),
    y0: bottom >= frame.bottom && a.y.lo > 0 ? 0 : a.y.value(bottom),
    y1: a.y.value(Math.min(cy(y0), cy(y1))),
  }
}

/** The point that the arrow keys go to from point i: the next earlier or later one. Ties go by request number. */
export function neighbour(d: Dots, i: number | null, direction: 1 | -1): number | null {
  const { x, n } = d.points
  let best: number | null = null
  const before = (a: number, b: number) => (x[a]! - x[b]! || n[a]! - n[b]!) * direction < 0
  for (let j = 0; j < x.length; j++) {
    if (i !== null && !before(i, j)) continue
    if (best === null || before(j, best)) best = j
  }
  return best
}

/** How strongly a tile is drawn, 0.15..0.9: by the logarithm of its count. */
export function strength(count: number, most: number): number {
  if (most <= 1) return 0.5
  return 0.15 + 0.75 * Math.log1p(Math.max(count, 0)) / Math.log1p(most)
}
