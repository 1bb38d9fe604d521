import { expect, test } from 'vitest'
import { between, niceTop, pan, parseSpan, shown, spanText, steady, tickText, ticks, within, zoom } from './view'

const all = { from: 0, to: 100_000 }

test.each([
  [{ from: -5, to: 10_000 }, { from: 0, to: 10_005 }],
  [{ from: 95_000, to: 105_000 }, { from: 90_000, to: 100_000 }],
  [{ from: -1e6, to: 1e6 }, all],
  [{ from: 50_000, to: 50_000 }, { from: 50_000, to: 50_200 }],
])('within %o', (s, want) => expect(within(s, all)).toEqual(want))

test('zoom keeps the time under the pointer', () => {
  const s = zoom({ from: 20_000, to: 60_000 }, 30_000, 0.5, all)
  expect(s).toEqual({ from: 25_000, to: 45_000 })
  expect((30_000 - s.from) / (s.to - s.from)).toBeCloseTo(0.25)
  expect(zoom(all, 50_000, 4, all)).toEqual(all)
  expect(zoom({ from: 0, to: 300 }, 150, 0.01, all)).toEqual({ from: 50, to: 250 })
})

test('pan stops at the ends', () => {
  expect(pan({ from: 0, to: 10_000 }, -500, all)).toEqual({ from: 0, to: 10_000 })
  expect(pan({ from: 0, to: 10_000 }, 1e9, all)).toEqual({ from: 90_000, to: 100_000 })
})

test.each([[{ from: 0, to: 12_500 }, '0-12.5'], [{ from: -2500, to: 80_000 }, '~2.5-80'], [{ from: 1, to: 2 }, '0.001-0.002']])('span text %o', (s, text) => {
  expect(spanText(s)).toBe(text)
  expect(parseSpan(text)).toEqual(s)
})
test.each([null, '', '1', '5-2', 'a-b', '1-2-3', '3-3', '1e3-2e3'])('no span in %s', (text) => expect(parseSpan(text)).toBeNull())

test('between puts in order', () => expect(between(5, 2)).toEqual({ from: 2, to: 5 }))

test('steady is of all steps, open while it runs, and the whole run where there is none', () => {
  const p = (name: 'warmup' | 'steady' | 'drain', step: number, from: number, to: number | null) => ({ name, step, from, to })
  expect(steady([p('warmup', 0, 0, 10), p('steady', 0, 10, 20), p('steady', 1, 25, 30), p('drain', 1, 30, 31)], all)).toEqual({ from: 10, to: 30 })
  expect(steady([p('warmup', 0, 0, 10), p('steady', 0, 10, null)], all)).toEqual({ from: 10, to: 100_000 })
  const late = [p('warmup', 0, 5, 10), p('steady', 0, 10, null)]
  expect(shown(late)).toEqual([{ name: 'prepare', step: 0, from: 0, to: 5 }, ...late])
  expect(shown(late.slice(1).map((x) => ({ ...x, from: 0 }))).map((x) => x.name)).toEqual(['steady'])
  expect(shown([])).toEqual([])
  expect(steady([], all)).toEqual(all)
})

test('ticks are round, apart, and inside', () => {
  expect(ticks(all, 880)).toEqual({ step: 10_000, at: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map((i) => i * 10_000) })
  expect(ticks({ from: 1234, to: 1834 }, 500).at).toEqual([1400, 1600, 1800])
  expect(ticks({ from: -3000, to: 3000 }, 600).at).toEqual([-3000, -2000, -1000, 0, 1000, 2000, 3000].filter((t) => t % 1000 === 0 && Math.abs(t) <= 3000))
  expect(ticks({ from: 0, to: 0 }, 600).at).toEqual([0])
  expect(ticks({ from: 0, to: 1e12 }, 600).at.length).toBeLessThan(20)
})

test.each([[0, 1000, '0:00'], [65_000, 5000, '1:05'], [3_600_000, 60_000, '1:00:00'], [1500, 500, '0:01.5'], [20, 20, '0:00.02'], [-5000, 1000, '−0:05'], [7, 5, '0:00.007']])(
  'tick %d at step %d', (t, step, want) => expect(tickText(t, step)).toBe(want))

test.each([[0, 1], [0.93, 1], [1, 1], [11, 15], [87, 100], [260, 300], [NaN, 1], [1e-4, 1e-4]])('top of %d', (v, want) => expect(niceTop(v)).toBeCloseTo(want, 9))
