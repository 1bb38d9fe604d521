import { describe, expect, it } from 'vitest'
import type { RunRow } from '../api'
import { findRuns, loadParts, readTags, tagChange, tagText } from './find-runs'

const run = (over: Partial<RunRow>): RunRow => ({ id: 'i', name: '', model: '', target: '', load: '', note: '', verdict: null, state: 'completed', live: false, workloads: [], tags: {}, ...over } as RunRow)

describe('findRuns', () => {
  const runs = [run({ id: 'a', name: 'Chat', tags: { gpu: 'h100' } }), run({ id: 'b', live: true, note: 'old Chat' }), run({ id: 'c', workloads: ['legal/x'] })]
  it('wants every word, anywhere, and puts live runs first', () => {
    expect(findRuns(runs, '').map(r => r.id)).toEqual(['b', 'a', 'c'])
    expect(findRuns(runs, ' chat ').map(r => r.id)).toEqual(['b', 'a'])
    expect(findRuns(runs, 'chat gpu=h').map(r => r.id)).toEqual(['a'])
    expect(findRuns(runs, 'LEGAL').map(r => r.id)).toEqual(['c'])
    expect(findRuns(runs, 'nowhere')).toEqual([])
  })
  it('finds runs that cannot be read, and by what is wrong', () => {
    const bad = [...runs, run({ id: 'd', state: 'unreadable', problem: { file: 'run.json', text: 'it is empty', fix: 'x' } })]
    expect(findRuns(bad, 'unreadable').map(r => r.id)).toEqual(['d'])
    expect(findRuns(bad, 'run.json empty').map(r => r.id)).toEqual(['d'])
  })
})

describe('tags', () => {
  it('are typed as they are shown', () => {
    for (const tags of [{ gpu: 'h100' } as Record<string, string>, { a: 'x y', b: '', c: 'q"q' }, {}]) expect(readTags(tagText(tags))).toEqual(tags)
    expect(readTags('gpu=h100   build=v0.12.1')).toEqual({ gpu: 'h100', build: 'v0.12.1' })
    expect(readTags('gpu')).toBeNull()
    expect(readTags('a="x')).toBeNull()
    expect(readTags('=x')).toBeNull()
  })
  it('change by what differs only', () => {
    expect(tagChange({ a: '1', b: '2', c: '3' }, { a: '1', b: 'x', d: '4' })).toEqual({ b: 'x', c: null, d: '4' })
  })
})

describe('loadParts', () => {
  it('parts the load of several workloads at their names alone', () => {
    const load = 'legal/a 0.200 sessions/s poisson spikes:to=6, every=18s, b 3 users, c 1.00 sessions/s constant, at most 8 in flight'
    expect(loadParts(load, ['legal/a', 'b', 'c'])).toEqual(['legal/a 0.200 sessions/s poisson spikes:to=6, every=18s', 'b 3 users', 'c 1.00 sessions/s constant, at most 8 in flight'])
    expect(loadParts('4, 8 users', ['a', 'b'])).toEqual(['4, 8 users'])
    expect(loadParts('', [])).toEqual([''])
  })
})
