import { afterEach, expect, test, vi } from 'vitest'
import { setLanguage, tables, words } from '.'

const modules = import.meta.glob('../**/*.{ts,tsx}')
const holes = (s: string) => [...s.matchAll(/\{\w+\}/g)].map((m) => m[0]).sort()

afterEach(() => vi.unstubAllGlobals())

test('every table has every key in both languages, filled, with the same holes', async () => {
  vi.stubGlobal('document', { documentElement: { lang: '' } })
  for (const [name, load] of Object.entries(modules)) if (!/test|main\.tsx|report\.tsx/.test(name)) await load()
  expect(tables().length).toBeGreaterThan(1)
  for (const { en, zh } of tables()) {
    expect(Object.keys(zh).sort()).toEqual(Object.keys(en).sort())
    for (const k of Object.keys(en)) {
      expect(en[k], k).not.toBe('')
      expect(zh[k], k).not.toBe('')
      expect(holes(zh[k] ?? ''), k).toEqual(holes(en[k] ?? ''))
    }
  }
}, 60_000) // every module of the panel is loaded: on a busy machine that takes its time

test('a text follows the language and takes its values', () => {
  vi.stubGlobal('document', { documentElement: { lang: '' } })
  const t = words({ a: 'go to {page}' }, { a: '前往{page}' })
  expect(t('a', { page: 'x' })).toBe('go to x')
  setLanguage('zh', false)
  expect(t('a', { page: 'x' })).toBe('前往x')
  expect(t('a', {})).toBe('前往{page}')
  setLanguage('en', false)
})
