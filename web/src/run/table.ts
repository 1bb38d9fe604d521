// The figures of a lane as rows of a table: every instant of what is shown is in exactly one row,
// and no extreme is lost where a row spans several buckets.

import type { Ms } from '../api'
import { type Axis, indices } from './frame'

type N = number | null

/** What is known of one column in each bucket; low and high where a bucket holds several cells. */
export interface Column { name: string; value: ArrayLike<N | undefined>; low?: ArrayLike<N | undefined> | undefined; high?: ArrayLike<N | undefined> | undefined; /** Percentiles and extremes have no mean over several buckets. */ mean: boolean }

/** One column of one row: its extremes, and its mean where it has one; null where nothing is known. */
export type Cell = { low: number; high: number; mean: N } | null

export interface Row { from: Ms; to: Ms; cells: Cell[] }

/** Few enough to be read, and to be made anew in every second of a live run. */
export const mostRows = 240

/** The rows between two times: one for each bucket, or for as many of them as leave at most some rows. */
export function rowsOf(axis: Axis, columns: readonly Column[], from: Ms, to: Ms, most = mostRows): { rows: Row[]; span: Ms } {
  const [a, b] = indices(axis, from, to)
  // Rows begin at whole numbers of their length, so that they stay while time goes on.
  let per = Math.max(1, Math.ceil((b - a + 1) / most))
  if (Math.floor(b / per) - Math.floor(a / per) + 1 > most) per++
  const rows: Row[] = []
  for (let i = a; i <= b;) {
    const end = Math.min(b + 1, (Math.floor(i / per) + 1) * per)
    rows.push({ from: axis.from + i * axis.step, to: axis.from + end * axis.step, cells: columns.map((c) => cellOf(c, i, end)) })
    i = end
  }
  return { rows, span: per * axis.step }
}

function cellOf(c: Column, from: number, to: number): Cell {
  let low = Infinity
  let high = -Infinity
  let sum = 0
  let n = 0
  for (let i = from; i < to; i++) {
    const v = c.value[i]
    if (v === null || v === undefined) continue
    low = Math.min(low, c.low?.[i] ?? v)
    high = Math.max(high, c.high?.[i] ?? v)
    sum += v
    n++
  }
  return n === 0 ? null : { low, high, mean: c.mean ? sum / n : null }
}
