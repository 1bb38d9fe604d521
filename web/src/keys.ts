// The keyboard: who is on screen binds its keys with words for the help, and takes them back
// when it leaves. A key is one character ("j", "?"), a name ("ArrowLeft", "shift+ArrowLeft"),
// or a sequence ("g r"). Typing into a field is left alone, except Escape.

import { useEffect, useRef } from 'preact/hooks'

export interface Binding { keys: string; text: () => string; run: (e: KeyboardEvent) => void; /** not in the help */ hidden?: boolean }

const bound: Binding[] = []
let pending = ''
let pendingUntil = 0

/** Binds until the returned function is called; the latest binding of a key wins. */
export function bind(list: Binding[]): () => void {
  bound.push(...list)
  return () => { for (const b of list) { const i = bound.indexOf(b); if (i >= 0) bound.splice(i, 1) } }
}

/** What is bound now, for the help. */
export const bindings = (): readonly Binding[] => bound

/** Binds while the component is there; the functions may change with every rendering. */
export function useKeys(list: Binding[]) {
  const now = useRef(list)
  now.current = list
  useEffect(() => bind(list.map((b, i) => ({
    keys: b.keys, hidden: b.hidden ?? false,
    text: () => now.current[i]?.text() ?? '',
    run: (e) => now.current[i]?.run(e),
  }))), [])
}

/** The name under which a press is bound. */
export function nameOf(e: Pick<KeyboardEvent, 'key' | 'shiftKey' | 'altKey'>): string {
  const named = e.key.length > 1
  return (e.altKey ? 'alt+' : '') + (named && e.shiftKey ? 'shift+' : '') + (e.key === ' ' ? 'Space' : e.key)
}

const typing = (t: EventTarget | null) =>
  t instanceof HTMLElement && (t.isContentEditable || t.tagName === 'TEXTAREA' || t.tagName === 'SELECT' ||
    (t instanceof HTMLInputElement && !['checkbox', 'radio', 'button', 'range'].includes(t.type)))

/** Gives a press to who bound it. True when somebody did. Now is when it was pressed: a busy page hears of it late. */
export function press(e: KeyboardEvent, now = e.timeStamp): boolean {
  if (e.ctrlKey || e.metaKey || e.isComposing) return false
  // An open dialog closes by it, which the browser does itself unless it is kept from that.
  if (e.key === 'Escape' && e.target instanceof Element && document.querySelector('dialog[open]')) return false
  if (typing(e.target)) {
    if (e.key === 'Escape') (e.target as HTMLElement).blur()
    return false
  }
  const name = nameOf(e)
  const whole = pending && now < pendingUntil ? `${pending} ${name}` : name
  pending = ''
  for (let i = bound.length - 1; i >= 0; i--) {
    const b = bound[i] as Binding
    if (b.keys === whole) { e.preventDefault(); b.run(e); return true }
  }
  if (bound.some((b) => b.keys.startsWith(name + ' '))) { pending = name; pendingUntil = now + 1500 }
  return false
}

/** Listens from now on. Call once. */
export function listen() { addEventListener('keydown', (e) => { press(e) }) }
