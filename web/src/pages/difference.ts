// What the table of differences says of a row: better, worse or not clear.

export interface DifferenceRow {
  metric: string
  unit: string
  better: 'lower' | 'higher' | null
  values: (number | null)[]
  ci: ([number, number] | null)[]
  change: (number | null)[]
  clear: (boolean | null)[]
}

/** What can be said of run i against the first one. `unknown`: there is nothing to judge by. */
export type Said = 'base' | 'same' | 'better' | 'worse' | 'differs' | 'unclear' | 'unknown'

/** Judges run i of a row against the first run. Only intervals that lie apart make a difference clear. */
export function said(row: DifferenceRow, i: number): Said {
  if (i === 0) return 'base'
  const base = row.values[0] ?? null
  const v = row.values[i] ?? null
  if (base === null || v === null) return 'unknown'
  if (v === base) return 'same'
  const clear = row.clear[i] ?? null
  if (clear === null) return 'unknown'
  if (!clear) return 'unclear'
  if (row.better === null) return 'differs'
  return (v < base) === (row.better === 'lower') ? 'better' : 'worse'
}

/** The rows that say most first: clear ones by the size of their change, then the rest in their order. */
export function byChange<R extends DifferenceRow>(rows: readonly R[]): R[] {
  const weight = (r: R): number => {
    let w = -1
    for (let i = 1; i < r.values.length; i++) {
      const s = said(r, i)
      if (s !== 'better' && s !== 'worse' && s !== 'differs') continue
      // Halving is as much as doubling.
      const ratio = Math.abs(Math.log(Math.max(1 + (r.change[i] ?? 0), 1e-9)))
      if (ratio > w) w = ratio
    }
    return w
  }
  return rows.map((r, i) => ({ r, i, w: weight(r) })).sort((a, b) => b.w - a.w || a.i - b.i).map(e => e.r)
}
