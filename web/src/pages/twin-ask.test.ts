import { describe, expect, it } from 'vitest'
import { askFor, designOf, linkOf, memoryParts, readLoads, usual } from './twin-ask'

describe('readLoads', () => {
  it('reads numbers and doublings', () => {
    expect(readLoads('1, 2 4;8', 'users')).toEqual([1, 2, 4, 8])
    expect(readLoads('1..10', 'users')).toEqual([1, 2, 4, 8, 10])
    expect(readLoads('0.5..2, 0.5', 'rates')).toEqual([0.5, 1, 2])
  })
  it.each([['', 'users'], ['x', 'users'], ['0', 'users'], ['1.5', 'users'], ['8..1', 'users'], ['1..1e9', 'users'], ['-1', 'rates'], ['0..4', 'rates'], ['0.001..99999999999999999999', 'rates']] as const)('refuses %s', (text, by) => {
    expect(readLoads(text, by)).toBeNull()
  })
})

describe('askFor', () => {
  it('asks for what is in the form', () => {
    expect(askFor(usual)).toEqual({ ask: { model: 'llama-3.1-8b', gpu: 'h100', tp: 1, pp: 1, dp: 1, ep: 1, replicas: 1, router: 'round-robin', engine: 'vllm', prompt_tokens: '1024', output_tokens: '256', users: [1, 2, 4, 8, 16, 32, 64, 128, 256] } })
    expect(askFor({ ...usual, workload: 'legal/x', by: 'rates', loads: '2.5', precision: 'fp8' })).toMatchObject({ ask: { workload: 'legal/x', rates: [2.5], precision: 'fp8' } })
    expect(askFor({ ...usual, pp: '2', dp: '4', ep: '8', kv: 'fp8', router: 'least-loaded' })).toMatchObject({ ask: { pp: 2, dp: 4, ep: 8, kv_fp8: true, router: 'least-loaded' } })
  })
  it('names every wrong field', () => {
    expect(askFor({ ...usual, tp: '0', pp: '-1', dp: '1.5', replicas: 'two', loads: '', prompt: ' ' })).toEqual({ wrong: { tp: 'whole', pp: 'whole', dp: 'whole', replicas: 'whole', loads: 'loads', prompt: 'length' } })
    expect(askFor({ ...usual, loads: Array.from({ length: 33 }, (_, i) => i + 1).join(' ') })).toEqual({ wrong: { loads: 'many' } })
  })
})

describe('the link of a design', () => {
  it('says it again', () => {
    const d = { ...usual, gpu: 'b200', by: 'rates' as const, loads: '1..8' }
    const link = new URLSearchParams(Object.entries(linkOf(d)).filter((e): e is [string, string] => e[1] !== null))
    expect([...link.keys()]).toEqual(['gpu', 'by', 'loads'])
    expect(designOf(link)).toEqual(d)
    expect(designOf(new URLSearchParams('by=nonsense')).by).toBe('users')
  })
})

describe('memoryParts', () => {
  it('adds up to the device', () => {
    const parts = memoryParts({ usable: 72, weights: 16, activations: 1, other: 1, kv: 54 }, 80)
    expect(parts.map(p => [p.name, p.bytes])).toEqual([['weights', 16], ['activations', 1], ['other', 1], ['kv', 54], ['free', 8]])
    expect(parts.reduce((n, p) => n + p.share, 0)).toBeCloseTo(1, 12)
  })
})
