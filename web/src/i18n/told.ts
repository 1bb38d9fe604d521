// What the server says, in the reader's language. The server writes English and names many of its
// sentences by a code with values; Chinese comes with a dictionary of its own, read only when it is
// wanted. What the dictionary does not know stays as the server said it.

import { count, figure, plain } from '../format'
import { again, language, onLanguage } from '.'

/** What fills a hole of a sentence: a number in a unit, a text of the server, or what someone else wrote. */
export interface Value { number?: number | null; unit?: string; text?: string; quote?: string }
/** A sentence for programs: its code, and what fills its holes. */
export interface Said { code?: string; values?: Record<string, Value> }

export interface Dictionary {
  /** Sentences by code, with holes as {name}. */
  codes: Readonly<Record<string, string>>
  /** Texts by what the server says, in which {} is a hole; the nth of them is {n} here. */
  texts: Readonly<Record<string, string>>
}

let reader: Reader | null = null

/** The dictionary as a look-up. */
export class Reader {
  readonly #exact = new Map<string, string>()
  readonly #patterns: { form: RegExp; text: string }[] = []
  readonly #known = new Map<string, string | null>()

  constructor(readonly dictionary: Dictionary) {
    const patterns: [string, string][] = []
    for (const [en, text] of Object.entries(dictionary.texts)) {
      if (en.includes('{}')) patterns.push([en, text])
      else this.#exact.set(en, text)
    }
    // The more a form says itself, the surer it is: it is tried first.
    const said = (form: string) => form.replaceAll('{}', '')
    patterns.sort((a, b) => said(b[0]).length - said(a[0]).length)
    for (const [en, text] of patterns) {
      // A form that says little itself would fit much that is not of the server: its holes take words alone.
      const hole = /^[\p{L} ]*$/u.test(said(en)) && said(en).length < 10 ? '([^.:;]{0,60}?)' : '(.*?)'
      this.#patterns.push({ form: new RegExp('^' + en.split('{}').map((s) => s.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join(hole) + '$', 's'), text })
    }
  }

  /** A text in Chinese, null where the dictionary does not have it. */
  text(en: string): string | null {
    let out = this.#known.get(en)
    if (out === undefined) {
      out = this.#look(en)
      if (this.#known.size > 2000) this.#known.clear()
      this.#known.set(en, out)
    }
    return out
  }

  #look(en: string): string | null {
    const exact = this.#exact.get(en)
    if (exact !== undefined) return exact
    // Names and numbers have no blank, and a message of someone else may be long.
    if (!en.includes(' ') || en.length > 4000) return null
    // What was found instead stands at the end, whatever was wanted.
    const got = en.indexOf(', got ')
    const wanted = got > 0 ? this.text(en.slice(0, got)) : null
    if (wanted !== null) return `${wanted}，实际为 ${en.slice(got + 6)}`
    for (const p of this.#patterns) {
      const m = p.form.exec(en)
      if (m) return p.text.replace(/\{(\d+)\}/g, (_, n: string) => this.part(m[Number(n)] ?? ''))
    }
    // Go puts where something happened before what it was.
    const at = en.indexOf(': ')
    const rest = at > 0 ? this.text(en.slice(at + 2)) : null
    return rest === null ? null : `${this.part(en.slice(0, at))}：${rest}`
  }

  /** A part of a text: in Chinese where it is known, else as it is. */
  part(en: string): string { return this.text(en) ?? en }

  /** A sentence by its code, null where it is not known or a value is missing. */
  said(said: Said): string | null {
    const form = this.dictionary.codes[said.code ?? '']
    if (form === undefined) return null
    let whole = true
    const out = form.replace(/\{(\w+)\}/g, (_, name: string) => {
      const v = said.values?.[name]
      if (v === undefined) whole = false
      return v === undefined ? '' : this.value(v)
    })
    return whole ? out : null
  }

  value(v: Value): string {
    if (v.number === undefined || v.number === null) return v.quote ?? this.part(v.text ?? '')
    return plain(v.unit ? figure(v.number, v.unit) : count(v.number))
  }
}

/** A sentence of the server: in Chinese where that is spoken and known, else as it is. */
export function told(text: string, said?: Said): string {
  if (reader === null || language() !== 'zh') return text
  return (said && reader.said(said)) ?? reader.part(text)
}

/** Reads the dictionary where it is wanted; until it is there, and where it cannot be had, English stands. */
onLanguage(() => {
  if (reader !== null || language() !== 'zh') return
  import('./zh').then(({ dictionary }) => { reader = new Reader(dictionary); again() }, () => {})
})
