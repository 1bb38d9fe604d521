import { afterEach, expect, test, vi } from 'vitest'
import type { Board } from './board'
import { Frame } from './frame'
import type { Lane } from './lanes'

const made = vi.hoisted(() => [] as { scales: { x: { min?: number; max?: number } } }[])
vi.mock('uplot', () => ({
  default: class {
    static paths = { linear: () => () => null }
    constructor(opts: (typeof made)[number]) { made.push(opts) }
    destroy() {}
  },
}))
import { Plot } from './plot'

afterEach(() => vi.unstubAllGlobals())

test('a plot shows the window from its first drawing on, wherever its values begin and end', () => {
  vi.stubGlobal('document', { documentElement: { dataset: {} }, body: {} })
  vi.stubGlobal('getComputedStyle', () => ({ fontFamily: 'x', getPropertyValue: () => '#123456' }))
  vi.stubGlobal('matchMedia', () => ({ matches: false, addEventListener() {} }))
  const f = new Frame(0, 8000, 100)
  f.addGrid({ from: 0, step_ms: 1000, n: 8, series: { 1: { mean: [1, 2, 3, 4, 5, 6, 7, 8] } } })
  const board = { frame: () => f, doc: { workloads: [], slo: [] } } as unknown as Board
  const lane: Lane = { key: 'users', group: 'load', word: 'users', title: '', unit: '', rate: false, kind: 'lines', parts: [{ id: 1, look: 'first', name: 'u' }], shown: true }
  expect(new Plot({} as HTMLElement, board, lane).draw({ off: new Set(), workloads: [] }, { from: 0, to: 8000 }, 800, 96, true)).toBe(true)
  expect(made[0]?.scales.x).toMatchObject({ min: 0, max: 8000 })
})
