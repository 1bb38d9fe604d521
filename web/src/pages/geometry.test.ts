import { describe, expect, it } from 'vitest'
import { byChange, said, type DifferenceRow } from './difference'
import { anchor, outline, place } from './radar'
import { extent, linear, logarithmic, niceStep, ticks } from './scale'
import { axes, bare, type Box, boxOf, hit, neighbour, strength, type Dots } from './scatter'
import { tokenTicks, waterfall, type Timed } from './waterfall'

describe('scale', () => {
  it('goes there and back', () => {
    for (const s of [linear(10, 20, 0, 100), logarithmic(10, 1000, 100, 0), linear(5, 5, 0, 10)]) {
      for (const v of [s.lo, (s.lo + s.hi) / 2, s.hi]) expect(s.value(s.px(v))).toBeCloseTo(v, 9)
    }
  })
  it('has round ticks', () => {
    expect(niceStep(100, 5)).toBe(20)
    expect(niceStep(0.3, 3)).toBeCloseTo(0.1, 12)
    expect(ticks(linear(0, 0.3, 0, 1), 3)).toEqual([0, 0.1, 0.2, 0.3])
    expect(ticks(logarithmic(1, 1000, 0, 1), 4)).toEqual([1, 10, 100, 1000])
    expect(ticks(logarithmic(1, 10, 0, 1), 6)).toEqual([1, 2, 5, 10])
    expect(ticks(logarithmic(1e-3, 1e9, 0, 1), 5).length).toBeLessThanOrEqual(5)
    expect(ticks(logarithmic(30, 40, 0, 1), 5).length).toBeGreaterThan(1)
  })
  it('has a place for what is not above 0 on a logarithmic scale', () => {
    expect(logarithmic(1, 100, 50, 0).px(0)).toBe(50)
  })
  it('ignores what is unknown', () => {
    expect(extent([null, 3, undefined, 1])).toEqual([1, 3])
    expect(extent([null])).toBeNull()
  })
})

const dots: Dots = {
  matched: 4, colors: ['a', 'b'], y_log: true,
  points: { n: [7, 3, 9, 4], x: [10, 50, 50, 90], y: [100, 1000, 10, 0], c: [0, 1, 0, 0] },
  tiles: { x0: [0], x1: [20], y0: [500], y1: [2000], c: [0], count: [40] },
}
const inside = (d: Dots, b: Box) => d.points.x.flatMap((x, i) => (x >= b.x0 && x <= b.x1 && d.points.y[i]! >= b.y0 && d.points.y[i]! <= b.y1 ? [i] : []))
const frame = { left: 50, top: 10, right: 450, bottom: 210 }

describe('scatter', () => {
  const a = axes(dots, 0, 100, frame, true)
  it('finds points before tiles', () => {
    expect(hit(dots, a, a.x.px(10) + 3, a.y.px(100))).toEqual({ kind: 'point', i: 0 })
    expect(hit(dots, a, a.x.px(10), a.y.px(1000))).toEqual({ kind: 'tile', i: 0 })
    expect(hit(dots, a, a.x.px(70), a.y.px(1000))).toBeNull()
  })
  it('makes a box of a drag in any direction, and none of a click', () => {
    const b = boxOf(a, frame, a.x.px(60), a.y.px(5000), a.x.px(40), a.y.px(500))!
    expect(b.x0).toBeCloseTo(40, 6)
    expect(b.x1).toBeCloseTo(60, 6)
    expect(inside(dots, b)).toEqual([1])
    expect(boxOf(a, frame, 100, 100, 102, 101)).toBeNull()
  })
  it('takes in values of 0 with a box to the lower edge', () => {
    expect(inside(dots, boxOf(a, frame, 0, 0, 900, 900)!)).toEqual([0, 1, 2, 3])
  })
  it('has nothing to draw without dots and tiles', () => {
    expect(bare(dots)).toBe(false)
    expect(bare({ ...dots, tiles: null })).toBe(false)
    expect(bare({ ...dots, points: { n: [], x: [], y: [], c: [] } })).toBe(false)
    expect(bare({ ...dots, points: { n: [], x: [], y: [], c: [] }, tiles: null })).toBe(true)
  })
  it('walks in time', () => {
    const order = []
    for (let i = neighbour(dots, null, 1); i !== null; i = neighbour(dots, i, 1)) order.push(dots.points.n[i])
    expect(order).toEqual([7, 3, 9, 4])
    expect(neighbour(dots, 0, -1)).toBeNull()
    expect(dots.points.n[neighbour(dots, null, -1)!]).toBe(4)
  })
  it('draws more for more', () => {
    expect(strength(1, 100)).toBeLessThan(strength(100, 100))
    expect(strength(100, 100)).toBeCloseTo(0.9, 9)
  })
  it('has axes for nothing at all', () => {
    const none: Dots = { ...dots, points: { n: [], x: [], y: [], c: [] }, tiles: null }
    expect(Number.isFinite(axes(none, 0, 100, frame, true).y.px(5))).toBe(true)
    expect(Number.isFinite(axes(none, 0, 100, frame, false).y.px(5))).toBe(true)
  })
})

describe('waterfall', () => {
  const r: Timed = {
    points: { scheduled: 0, retrieval_start: 1, retrieval_end: 401, start: 402, connected: 410, sent: 412, first_token: 900, last_token: 1900, end: 1910 },
    events: { t: [900, 900.5, 1400, 1900], tokens: [1, 2, null, 1], bounded: [true, false, false, false] },
    engine: { queue_ms: 100, prefill_ms: 300, decode_ms: 1000 },
  }
  it('has every stretch, one after the other', () => {
    expect(waterfall(r).bars.map(b => [b.stretch, b.from, b.to])).toEqual([
      ['retrieval', 1, 401], ['wait', 401, 402], ['connect', 402, 410], ['upload', 410, 412], ['first', 412, 900],
      ['queue', 500, 600], ['prefill', 600, 900], ['tokens', 900, 1900], ['tail', 1900, 1910],
    ])
    expect(waterfall(r)).toMatchObject({ from: 0, to: 1910 })
  })
  it('keeps what the engine tells within what was seen', () => {
    const bars = waterfall({ ...r, engine: { queue_ms: 9999, prefill_ms: 9999, decode_ms: null } }).bars.filter(b => b.told)
    expect(bars.every(b => b.from >= 412 && b.to <= 900)).toBe(true)
  })
  it('leaves out what is not known', () => {
    const failed = waterfall({ points: { scheduled: 0, start: 1, connected: 2, sent: 3, first_token: null, end: 50 }, events: { t: [], tokens: [], bounded: [] }, engine: null })
    expect(failed.bars.map(b => b.stretch)).toEqual(['wait', 'connect', 'upload', 'first'])
    expect(waterfall({ points: {}, events: { t: [], tokens: [], bounded: [] }, engine: null })).toMatchObject({ from: 0, to: 0, bars: [] })
  })
  it('counts the ticks of one pixel', () => {
    expect(tokenTicks(r, 0, 1910, 191)).toEqual([
      { t: 900, events: 2, tokens: 3, bounded: true }, { t: 1400, events: 1, tokens: null, bounded: false }, { t: 1900, events: 1, tokens: 1, bounded: false },
    ])
    expect(tokenTicks(r, 0, 1910, 191).reduce((n, t) => n + t.events, 0)).toBe(4)
    expect(tokenTicks(r, 1000, 1000, 100)).toEqual([])
  })
})

describe('radar', () => {
  it('begins at the top and goes clockwise', () => {
    expect(place(0, 4, 1, 100, 100, 50)).toEqual({ x: 100, y: 50 })
    expect(place(1, 4, 0.5, 100, 100, 50)).toEqual({ x: 125, y: 100 })
    expect(outline([1, null], 10, 10, 10)).toBe('10,0 10,10')
    expect([0, 1, 2, 3].map(i => anchor(i, 4))).toEqual(['middle', 'start', 'middle', 'end'])
  })
})

describe('differences', () => {
  const row = (better: 'lower' | 'higher' | null, b: number | null, clear: boolean | null, change = 0.1): DifferenceRow =>
    ({ metric: 'm', unit: 'ms', better, values: [10, b], ci: [null, null], change: [0, change], clear: [null, clear] })
  it('says only what intervals allow', () => {
    expect(said(row('lower', 5, true), 0)).toBe('base')
    expect(said(row('lower', 5, true), 1)).toBe('better')
    expect(said(row('higher', 5, true), 1)).toBe('worse')
    expect(said(row('lower', 5, false), 1)).toBe('unclear')
    expect(said(row('lower', 5, null), 1)).toBe('unknown')
    expect(said(row(null, 5, true), 1)).toBe('differs')
    expect(said(row('lower', null, null), 1)).toBe('unknown')
    expect(said(row('lower', 10, false), 1)).toBe('same')
  })
  it('puts clear and large changes first', () => {
    const rows = [row('lower', 11, false, 9), row('lower', 11, true, 0.1), row('lower', 5, true, -0.5)]
    expect(byChange(rows)).toEqual([rows[2], rows[1], rows[0]])
  })
})
