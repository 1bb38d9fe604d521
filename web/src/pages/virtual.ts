// Which rows of a very long table are in sight. It never draws.

/** Above this height browsers stop being exact, or refuse: then scrolling is scaled. */
const most = 8_000_000

export interface Sight {
  /** Rows from first up to end, not including it, are in sight or next to it. */
  first: number
  end: number
  /** Height of all rows, as far as a browser bears it. */
  height: number
  /** Where row i lies within that height, for the scrolling of now. */
  topOf: (i: number) => number
  /** Where to scroll to so that row i is the first in sight. */
  scrollOf: (i: number) => number
}

/** The rows in sight of n rows of the given height, with some beside them. */
export function rowsInSight(n: number, row: number, scroll: number, view: number, beside = 6): Sight {
  const whole = n * row
  const height = Math.min(whole, most)
  const fits = Math.ceil(view / row)
  if (whole <= most) {
    const first = Math.max(Math.floor(scroll / row) - beside, 0)
    return { first: Math.min(first, n), end: Math.min(Math.floor(scroll / row) + fits + beside, n), height, topOf: i => i * row, scrollOf: i => i * row }
  }
  // Scaled: the share that is scrolled chooses the first row, and the rows are
  // laid out from the place of scrolling on.
  const top = Math.max(n - Math.floor(view / row) + 1, 1)
  const room = Math.max(height - view, 1)
  const at = Math.min(Math.round(scroll / room * top), top)
  return {
    first: Math.max(at - beside, 0), end: Math.min(at + fits + beside, n), height,
    topOf: i => scroll + (i - at) * row,
    scrollOf: i => Math.min(Math.max(i, 0), top) / top * room,
  }
}
