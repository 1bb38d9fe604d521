// The editor of a scenario: lines with numbers, completion from the schema, errors in their
// place. The text itself is a textarea's, so that selection, undo and screen readers are the
// browser's own.

import { useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { ScenarioError } from '../../api'
import { words } from '../../i18n'
import { told } from '../../i18n/told'
import { newline, type Offer, offers, offsetOf, placeAt, type Schema, schemaAt } from '../yaml'

const t = words(
  { editor: 'Scenario', offers: 'What may stand here', hint: 'Ctrl+Space completes, Tab takes it, Escape then Tab leaves the editor' },
  { editor: '场景', offers: '此处可填写的内容', hint: 'Ctrl+空格补全，Tab 采用，先按 Esc 再按 Tab 离开编辑器' },
)

const lineHeight = 20
const padding = { x: 12, y: 8 }

export interface EditorHandle { go: (line: number, column: number) => void }

export function Editor({ text, onText, errors, schema, known, handle }: { text: string; onText: (s: string) => void; errors: readonly ScenarioError[]; schema: Schema | null; known: Readonly<Record<string, readonly string[]>>; handle: { current: EditorHandle | null } }) {
  const id = useId()
  const area = useRef<HTMLTextAreaElement>(null)
  const [scroll, setScroll] = useState({ x: 0, y: 0 })
  const [caret, setCaret] = useState(0)
  const [open, setOpen] = useState(false)
  const [chosen, setChosen] = useState(0)
  const [leave, setLeave] = useState(false)
  const [wide, setWide] = useState(8)
  useLayoutEffect(() => {
    const c = document.createElement('canvas').getContext('2d')
    if (c === null || area.current === null) return
    c.font = getComputedStyle(area.current).font
    setWide(c.measureText('0'.repeat(100)).width / 100 || 8)
  }, [])
  handle.current = {
    go: (line, column) => {
      const el = area.current
      if (el === null) return
      const at = offsetOf(el.value, line, column)
      el.focus()
      el.setSelectionRange(at, at)
      el.scrollTop = Math.max((line - 1) * lineHeight - el.clientHeight / 2, 0)
      setCaret(at)
      setOpen(false)
    },
  }
  const place = placeAt(text, caret)
  const list: Offer[] = schema === null ? [] : offers(schema, place, text, known).slice(0, 40)
  const shown = open && list.length > 0
  const about = schema === null || place.kind === 'none' ? '' : (shown ? list[Math.min(chosen, list.length - 1)]!.text : '') || (place.path.length > 0 ? schemaAt(schema, place.path)?.description ?? '' : '')
  useEffect(() => { document.getElementById(`${id}-${chosen}`)?.scrollIntoView({ block: 'nearest' }) }, [chosen, shown])

  // insertText keeps the browser's own undo; where it is missing the text is set.
  const write = (el: HTMLTextAreaElement, from: number, to: number, s: string) => {
    el.setSelectionRange(from, to)
    if (!document.execCommand('insertText', false, s)) {
      el.setRangeText(s, from, to, 'end')
      onText(el.value)
    }
    setCaret(el.selectionStart)
  }
  const take = (o: Offer) => {
    const el = area.current
    if (el === null) return
    write(el, place.from, Math.max(place.to, place.from), o.insert)
    setOpen(o.insert.endsWith(': ') || o.insert.includes('\n'))
    setChosen(0)
  }
  const onKey = (e: KeyboardEvent) => {
    const el = e.currentTarget as HTMLTextAreaElement
    if (e.isComposing) return
    if (e.key === ' ' && e.ctrlKey) { setOpen(true); setChosen(0) }
    else if (shown && (e.key === 'ArrowDown' || e.key === 'ArrowUp')) setChosen(c => (c + (e.key === 'ArrowDown' ? 1 : list.length - 1)) % list.length)
    else if (shown && (e.key === 'Tab' || (e.key === 'Enter' && place.typed !== '')) && !e.shiftKey) take(list[Math.min(chosen, list.length - 1)]!)
    else if (e.key === 'Escape') { if (open) setOpen(false); else setLeave(true) }
    else if (e.key === 'Tab' && !e.shiftKey && !leave && !e.ctrlKey && !e.altKey) write(el, el.selectionStart, el.selectionEnd, '  ')
    else if (e.key === 'Enter' && !e.ctrlKey && !e.metaKey) write(el, el.selectionStart, el.selectionEnd, newline(el.value, el.selectionStart))
    else { if (e.key !== 'Tab' && e.key !== 'Shift') setLeave(false); return }
    e.preventDefault()
    e.stopPropagation()
  }
  const lines = text.split('\n')
  const first = Math.max(Math.floor(scroll.y / lineHeight) - 2, 0)
  const byLine = new Map<number, ScenarioError[]>()
  for (const e of errors) if (e.line > 0) byLine.set(e.line, [...(byLine.get(e.line) ?? []), e])
  const before = text.slice(0, place.from)
  const row = before.split('\n').length
  const column = [...before.slice(before.lastIndexOf('\n') + 1)].length
  const view = area.current?.clientHeight ?? 440
  const below = padding.y + row * lineHeight - scroll.y
  const style = {
    left: `${Math.max(Math.min(padding.x + column * wide - scroll.x, (area.current?.clientWidth ?? 600) - 230), 0)}px`,
    ...(below + 208 > view && below > 228 ? { bottom: `${view - below + lineHeight}px` } : { top: `${below}px` }),
  }
  return (
    <div>
      <div class="ed">
        <div class="ed-gutter" aria-hidden="true">
          <div style={{ transform: `translateY(${-scroll.y}px)`, padding: '0', height: `${lines.length * lineHeight}px` }}>
            {lines.map((_, i) => <div key={i} class={byLine.has(i + 1) ? 'is-bad' : ''} title={byLine.get(i + 1)?.map(e => told(e.text, e.said)).join('\n')}>{byLine.has(i + 1) ? '● ' : ''}{i + 1}</div>)}
          </div>
        </div>
        <div class="ed-space">
          <textarea
            ref={area} value={text} spellcheck={false} autocapitalize="off" autocomplete="off" wrap="off" aria-label={`${t('editor')}. ${t('hint')}`} aria-invalid={errors.length > 0} aria-describedby={`${id}-about`}
            aria-controls={shown ? `${id}-offers` : undefined} aria-autocomplete="list" aria-multiline="true" aria-activedescendant={shown ? `${id}-${chosen}` : undefined}
            onInput={e => { const el = e.currentTarget; onText(el.value); setCaret(el.selectionStart); setChosen(0); setOpen(e.inputType?.startsWith('insert') ? e.inputType === 'insertText' && /[\w.-]/.test(e.data ?? '') : open) }}
            onKeyDown={onKey} onKeyUp={e => setCaret(e.currentTarget.selectionStart)} onClick={e => { setCaret(e.currentTarget.selectionStart); setOpen(false) }}
            onScroll={e => setScroll({ x: e.currentTarget.scrollLeft, y: e.currentTarget.scrollTop })} onBlur={() => { setOpen(false); setLeave(false) }}
          />
          <div class="ed-marks" aria-hidden="true">
            {[...byLine].filter(([n]) => n >= first && n <= first + 80).map(([n, list]) => {
              const line = [...(lines[n - 1] ?? '')]
              const e = list[0]!
              const from = Math.max(e.column - 1, 0)
              let to = from
              while (to < line.length && !/[\s:#]/.test(line[to]!)) to++
              const top = `${padding.y + (n - 1) * lineHeight - scroll.y}px`
              return (
                <div key={n}>
                  <span class="ed-wave" style={{ top, left: `${padding.x + from * wide - scroll.x}px`, width: `${Math.max(to - from, 1) * wide}px` }} />
                  <span class="ed-said" style={{ top, left: `${padding.x + line.length * wide - scroll.x}px` }}>{told(e.text, e.said)}{e.fix ? ` → ${told(e.fix)}` : ''}</span>
                </div>
              )
            })}
          </div>
          {shown && (
            <ul class="ed-offers" id={`${id}-offers`} role="listbox" aria-label={t('offers')} style={style}>
              {list.map((o, i) => <li key={o.label} id={`${id}-${i}`} role="option" aria-selected={i === chosen} onMouseDown={e => { e.preventDefault(); take(o) }}>{o.label}<span>{told(o.text)}</span></li>)}
            </ul>
          )}
        </div>
      </div>
      <p class="ed-about" id={`${id}-about`}>{told(about) || t('hint')}</p>
    </div>
  )
}
