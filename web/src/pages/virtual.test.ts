import { describe, expect, it } from 'vitest'
import { rowsInSight } from './virtual'

describe('rowsInSight', () => {
  it('shows what fits, and some beside', () => {
    expect(rowsInSight(1000, 26, 2600, 260)).toMatchObject({ first: 94, end: 116, height: 26_000 })
    expect(rowsInSight(3, 26, 0, 260)).toMatchObject({ first: 0, end: 3 })
    expect(rowsInSight(0, 26, 0, 260)).toMatchObject({ first: 0, end: 0, height: 0 })
  })
  it.each([1_000, 1_000_000, 50_000_000])('reaches every row of %i, the last at the end', n => {
    const view = 390
    const height = rowsInSight(n, 26, 0, view).height
    expect(height).toBeLessThanOrEqual(8_000_000)
    for (const i of [0, 1, Math.floor(n / 3), n - 40, n - 1]) {
      const to = Math.min(rowsInSight(n, 26, 0, view).scrollOf(i), height - view)
      const s = rowsInSight(n, 26, to, view)
      expect(s.first).toBeLessThanOrEqual(i)
      expect(s.end).toBeGreaterThan(i)
      // The row itself is within the view.
      expect(s.topOf(i) + 26).toBeGreaterThan(to)
      expect(s.topOf(i)).toBeLessThan(to + view)
    }
    const last = rowsInSight(n, 26, height - view, view)
    expect(last.end).toBe(n)
    expect(last.topOf(n - 1) + 26).toBeLessThanOrEqual(height + 26)
  })
})
