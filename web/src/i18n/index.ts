// The panel's words in English and Chinese. Each part of the panel brings its own table; a
// table lacks no key in either language, because the types say so and a test counts.

export type Lang = 'en' | 'zh'
export type Values = Record<string, string | number>

const lists: { en: Record<string, string>; zh: Record<string, string> }[] = []
let lang: Lang = 'en'
const listeners = new Set<() => void>()

/**
 * A table of words. `{name}` in a text is replaced by values.name. Returns the look-up, which
 * follows the language of the moment.
 */
export function words<T extends Record<string, string>>(en: T, zh: { [K in keyof T]: string }): (key: keyof T & string, values?: Values) => string {
  lists.push({ en, zh })
  return (key, values) => fill((lang === 'zh' ? zh : en)[key] as string, values)
}

/** Every table so far, for the test that holds them against one another. */
export const tables = (): readonly { en: Record<string, string>; zh: Record<string, string> }[] => lists

function fill(text: string, values?: Values): string {
  return values ? text.replace(/\{(\w+)\}/g, (all, name: string) => (name in values ? String(values[name]) : all)) : text
}

export const language = (): Lang => lang

/** Takes the stored choice, else the browser's language. */
export function firstLanguage(): Lang {
  try {
    const kept = localStorage.getItem('plimsoll.lang')
    if (kept === 'en' || kept === 'zh') return kept
  } catch { /* storage may be forbidden; the browser's language will do */ }
  return navigator.language.toLowerCase().startsWith('zh') ? 'zh' : 'en'
}

export function setLanguage(to: Lang, keep = true) {
  lang = to
  document.documentElement.lang = to === 'zh' ? 'zh-Hans' : 'en'
  if (keep) try { localStorage.setItem('plimsoll.lang', to) } catch { /* not kept, then */ }
  again()
}

/** Has everything that is on screen say its words again. */
export function again() {
  for (const f of listeners) f()
}

/** Calls f after every change of the language, until the returned function is called. */
export function onLanguage(f: () => void): () => void {
  listeners.add(f)
  return () => listeners.delete(f)
}
