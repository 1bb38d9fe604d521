import { describe, expect, it } from 'vitest'
import { newline, offers, offsetOf, placeAt, schemaAt, type Schema } from './yaml'

const schema: Schema = {
  type: 'object',
  properties: {
    name: { type: 'string', description: 'Name of the run.' },
    target: {
      type: ['object', 'null'],
      properties: {
        url: { default: '', anyOf: [{ type: 'array', items: { type: 'string' } }, { type: 'string' }] },
        api: { default: 'openai.chat', anyOf: [{ type: 'string', enum: ['openai.chat', 'openai.completions'] }, { type: 'string' }] },
        insecure: { anyOf: [{ type: 'boolean' }, { type: 'string' }] },
        header: { type: 'object', additionalProperties: { type: 'string' } },
      },
    },
    load: { type: 'object', properties: { users: { type: 'integer' }, stages: { anyOf: [{ type: 'array', items: { type: 'object', properties: { rate: {}, 'for': {} } } }] } } },
    users: { properties: { workload: { anyOf: [{ type: 'array', items: { type: 'string' } }] } } },
  },
}

const at = (s: string) => placeAt(s.replace('|', ''), s.indexOf('|'))
const offered = (s: string, known = {}) => offers(schema, at(s), s.replace('|', ''), known).map(o => o.label)

describe('placeAt', () => {
  it('finds keys by indentation', () => {
    expect(at('target:\n  ap|')).toMatchObject({ path: ['target'], kind: 'key', typed: 'ap', indent: 2 })
    expect(at('target:\n  url: x\nlo|')).toMatchObject({ path: [], kind: 'key', typed: 'lo' })
    expect(at('target:\n  header:\n    X: y\n\n  a|')).toMatchObject({ path: ['target'], kind: 'key' })
    expect(at('target:\n  header:\n    X|')).toMatchObject({ path: ['target', 'header'], kind: 'key' })
  })
  it('finds values', () => {
    expect(at('target:\n  api: op|en')).toMatchObject({ path: ['target', 'api'], kind: 'value', typed: 'op', from: 15, to: 19 })
    expect(at('users:\n  workload: [legal, fi|]')).toMatchObject({ path: ['users', 'workload'], kind: 'value', typed: 'fi' })
    expect(at('users:\n  workload:\n    - le|')).toMatchObject({ path: ['users', 'workload'], kind: 'value', typed: 'le' })
    expect(at('users:\n  workload:\n  - le|')).toMatchObject({ path: ['users', 'workload'], kind: 'value', typed: 'le' })
  })
  it('is silent in comments and odd places', () => {
    expect(at('# tar|').kind).toBe('none')
    expect(at('name: x # y|').kind).toBe('none')
    expect(at('name: "a # b|').kind).toBe('value')
    expect(at('{a|').kind).toBe('none')
  })
})

describe('offers', () => {
  it('offers keys that are not there yet', () => {
    expect(offered('target:\n  url: x\n  |\n  api: y')).toEqual(['insecure', 'header'])
    expect(offered('|')).toEqual(['name', 'target', 'load', 'users'])
    expect(offers(schema, at('tar|'), 'tar')[0]!.insert).toBe('target:\n  ')
  })
  it('offers values of choices, of booleans, and known ones', () => {
    expect(offered('target:\n  api: |')).toEqual(['openai.chat', 'openai.completions'])
    expect(offered('target:\n  api: openai.c|')).toEqual(['openai.chat', 'openai.completions'])
    expect(offered('target:\n  insecure: |')).toEqual(['true', 'false'])
    expect(offered('users:\n  workload: |', { 'users.workload': ['legal/x'] })).toEqual(['legal/x'])
  })
  it('goes into the items of lists', () => {
    expect(schemaAt(schema, ['load', 'stages', 'rate'])).not.toBeNull()
    expect(schemaAt(schema, ['load', 'nothing'])).toBeNull()
    expect(schemaAt(schema, ['constructor'])).toBeNull()
  })
})

describe('offsetOf', () => {
  it('counts lines and characters', () => {
    expect(offsetOf('ab\ncd', 2, 2)).toBe(4)
    expect(offsetOf('ab\ncd', 1, 99)).toBe(2)
    expect(offsetOf('ab', 9, 1)).toBe(2)
    expect(offsetOf('😀x', 1, 2)).toBe(2)
  })
})

describe('newline', () => {
  it('keeps the indentation and goes deeper behind an open key', () => {
    expect(newline('  a: b', 6)).toBe('\n  ')
    expect(newline('  a:', 4)).toBe('\n    ')
    expect(newline('# a:', 4)).toBe('\n')
  })
})
