// Lines of more values than the screen has pixels across: an hour of seconds. As paths they are
// zigzags that cross every row of pixels a thousand times, which costs a browser without a
// graphics card some 10 ms a lane; as columns of pixels, each from the least to the greatest of
// the values in it, they look the same and cost a tenth. No extreme is lost.

import type uPlot from 'uplot'

type N = number | null

/** How wide a column is for a line of a width, in pixels of the canvas. */
export const columnWidth = (width: number) => Math.max(1, Math.floor(width * (globalThis.devicePixelRatio || 1)))

/** Whether a plot has more values across than columns. */
export function isDense(u: uPlot, width: number): boolean {
  const x = u.data[0]
  const [from, to] = u.series[0]?.idxs ?? [0, 0]
  if (to - from < 50) return false
  const across = u.valToPos(x[to] as number, 'x', true) - u.valToPos(x[from] as number, 'x', true)
  return across < 0.95 * columnWidth(width) * (to - from)
}

/** Of each column the uppermost and the lowest pixel of its line; NaN where there is none. */
export interface Columns { top: Float64Array; bottom: Float64Array }

/**
 * The columns of values, n of them: place says in which one a time is. A column reaches to the
 * value before it, so that the line hangs together; what is unknown parts it.
 */
export function gatherColumns(x: ArrayLike<number>, y: ArrayLike<N | undefined>, from: number, to: number, n: number, place: (x: number) => number): { low: Float64Array; high: Float64Array } {
  const low = new Float64Array(n).fill(NaN)
  const high = new Float64Array(n).fill(NaN)
  let before = NaN
  let column = -1
  for (let i = from; i <= to; i++) {
    const v = y[i]
    if (v === null || v === undefined) { before = NaN; continue }
    const at = Math.min(Math.max(Math.floor(place(x[i] as number)), 0), n - 1)
    if (at !== column || Number.isNaN(low[at] as number)) {
      low[at] = Number.isNaN(before) ? v : Math.min(v, before)
      high[at] = Number.isNaN(before) ? v : Math.max(v, before)
      column = at
    } else {
      if (v < (low[at] as number)) low[at] = v
      if (v > (high[at] as number)) high[at] = v
    }
    before = v
  }
  return { low, high }
}

/** The columns of one series of a plot in pixels of its canvas. */
export function columnsOf(u: uPlot, si: number, wide: number): Columns {
  const { left, width } = u.bbox
  const [from, to] = u.series[0]?.idxs ?? [0, -1]
  const { low, high } = gatherColumns(u.data[0], u.data[si] as N[], from, to, Math.ceil(width / wide), (x) => (u.valToPos(x, 'x', true) - left) / wide)
  const y = (v: number) => (Number.isNaN(v) ? NaN : u.valToPos(v, 'y', true))
  return { top: high.map(y), bottom: low.map(y) }
}

/** Fills between two edges, or down to the zero line; neighbours of equal height are one rectangle. */
export function fillColumns(u: uPlot, wide: number, top: Float64Array, bottom: Float64Array | null, fill: string) {
  const zero = u.valToPos(Math.max(0, u.scales.y?.min ?? 0), 'y', true)
  u.ctx.fillStyle = fill
  rectangles(u, wide, top.length, (i) => Math.round(top[i] as number), (i) => Math.round(bottom ? (bottom[i] as number) : zero))
}

/** Draws a line; with dashes some of its columns are left out. */
export function lineColumns(u: uPlot, wide: number, c: Columns, stroke: string, width: number, dash?: number[]) {
  const px = globalThis.devicePixelRatio || 1
  const thick = Math.max(1, Math.round(width * px))
  const [on = 1, off = 0] = dash ?? []
  u.ctx.fillStyle = stroke
  rectangles(u, wide, c.top.length, (i) => {
    if (off > 0 && (i * wide) % ((on + off) * px) >= on * px) return NaN
    return Math.round((c.top[i] as number) - thick / 2)
  }, (i) => Math.round((c.bottom[i] as number) + thick / 2))
}

function rectangles(u: uPlot, wide: number, n: number, top: (i: number) => number, bottom: (i: number) => number) {
  const { left, width } = u.bbox
  let begin = 0
  let up = NaN
  let down = NaN
  const put = (end: number) => {
    if (down > up) u.ctx.fillRect(left + begin * wide, up, Math.min(end * wide, width) - begin * wide, down - up)
  }
  for (let i = 0; i < n; i++) {
    const a = top(i)
    const b = bottom(i)
    if (a === up && b === down) continue
    put(i)
    begin = i
    up = a
    down = b
  }
  put(n)
}
