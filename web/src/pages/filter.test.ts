import { describe, expect, it } from 'vitest'
import testdata from '../../testdata/filter.json'
import { completeFilter, matches, parseFilter, toggleTerm, type Filterable } from './filter'

interface Case { filter: string; matches?: number[]; error?: { at: number; length: number } }
const fixture: { rows: Filterable[]; cases: Case[] } = testdata

describe('the filter language', () => {
  it.each(fixture.cases.map(c => [c.filter.slice(0, 60), c] as const))('%s', (_, c) => {
    const f = parseFilter(c.filter)
    if (c.error !== undefined) {
      expect({ at: f.errors[0]?.at, length: f.errors[0]?.length }).toEqual(c.error)
      expect(fixture.rows.some(r => matches(f, r))).toBe(false)
    } else {
      expect(f.errors).toEqual([])
      expect(fixture.rows.filter(r => matches(f, r)).map(r => r.n)).toEqual(c.matches)
    }
  })
  it('names the nearest field', () => {
    expect(parseFilter('ttf>2s').errors[0]).toMatchObject({ code: 'field', nearest: 'ttft' })
    expect(parseFilter('Status:ok').errors[0]).toMatchObject({ code: 'field', nearest: 'status' })
    expect(parseFilter('zzzzzz>2s').errors[0]).toMatchObject({ code: 'field', nearest: '' })
    expect(parseFilter('constructor>2s').errors[0]).toMatchObject({ code: 'field', nearest: '' })
  })
})

describe('completion', () => {
  const known = { workloads: ['legal/contract-review', 'my own'], finishes: ['stop', 'length'] }
  const at = (s: string) => completeFilter(s.replace('|', ''), s.indexOf('|'), known)
  it('offers fields', () => {
    expect(at('st|').items).toEqual(['status:', 'step:'])
    expect(at('-tt|').items).toEqual(['-ttft>', '-ttfc>', '-ttlt>'])
    expect(at('status:ok |').from).toBe(10)
  })
  it('offers values', () => {
    expect(at('status:|').items).toEqual(['status:ok', 'status:error', 'status:cancelled', 'status:incomplete'])
    expect(at('workload:OW|').items).toEqual(['workload:"my own"'])
    expect(at('-error:rate|').items).toEqual(['-error:rate_limited'])
    expect(at('finish:l|').items).toEqual(['finish:length'])
  })
  it('offers units', () => {
    expect(at('ttft>2|').items).toEqual(['ttft>2ms', 'ttft>2s', 'ttft>2us', 'ttft>2m'])
    expect(at('ttft>2s|').items).toEqual([])
  })
  it('replaces the whole word', () => {
    expect(at('a status:e|rr x')).toMatchObject({ from: 2, to: 12 })
    expect(at('workload:"my o|wn')).toMatchObject({ from: 0, items: ['workload:"my own"'] })
  })
})

describe('toggleTerm', () => {
  it('adds and takes away', () => {
    expect(toggleTerm('a:1  b:2', 'status:ok')).toBe('a:1 b:2 status:ok')
    expect(toggleTerm('a:1 status:ok b:2', 'status:ok')).toBe('a:1 b:2')
  })
})
