import { beforeAll, expect, test, vi } from 'vitest'
import { bind, nameOf, press } from './keys'

beforeAll(() => {
  // The few names of a browser that press looks at.
  vi.stubGlobal('HTMLElement', class {})
  vi.stubGlobal('HTMLInputElement', class {})
})
const key = (k: string, more: Partial<KeyboardEvent> = {}) => ({ key: k, shiftKey: false, altKey: false, preventDefault() {}, target: null, timeStamp: 0, ...more }) as KeyboardEvent

test('names', () => {
  expect(nameOf(key('ArrowLeft', { shiftKey: true }))).toBe('shift+ArrowLeft')
  expect(nameOf(key('?', { shiftKey: true }))).toBe('?')
  expect(nameOf(key(' '))).toBe('Space')
})

test('the latest binding wins and is gone when taken back', () => {
  const hits: string[] = []
  const off = bind([{ keys: 'x', text: () => '', run: () => hits.push('old') }])
  const off2 = bind([{ keys: 'x', text: () => '', run: () => hits.push('new') }])
  press(key('x'))
  off2()
  press(key('x'))
  off()
  expect(press(key('x'))).toBe(false)
  expect(hits).toEqual(['new', 'old'])
})

test('a sequence needs its keys in time, and its second key alone does something else', () => {
  const hits: string[] = []
  const off = bind([{ keys: 'g r', text: () => '', run: () => hits.push('g r') }, { keys: 'r', text: () => '', run: () => hits.push('r') }])
  press(key('g'), 0); press(key('r'), 100)
  press(key('g'), 1000); press(key('r'), 9000)
  press(key('r'), 9001)
  // What counts is when they were pressed, not when a busy page came round to them.
  press(key('g', { timeStamp: 20_000 })); press(key('r', { timeStamp: 20_100 }))
  press(key('g', { timeStamp: 30_000 })); press(key('r', { timeStamp: 39_000 }))
  off()
  expect(hits).toEqual(['g r', 'r', 'r', 'g r', 'r'])
})

test('with control or command, a press is the browser\'s', () => {
  const off = bind([{ keys: 'f', text: () => '', run: () => { throw new Error('run') } }])
  expect(press(key('f', { ctrlKey: true }))).toBe(false)
  expect(press(key('f', { metaKey: true }))).toBe(false)
  off()
})
