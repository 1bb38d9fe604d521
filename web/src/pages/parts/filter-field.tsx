// The field in which requests are filtered: completion below, errors in their place.

import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { words } from '../../i18n'
import { useKeys } from '../../keys'
import { completeFilter, type FilterError, parseFilter } from '../filter'

const t = words(
  {
    filter: 'Filter requests', focus: 'filter the requests', hint: 'workload:legal ttft>2s -status:ok', offers: 'What may stand here',
    bare: '“{word}” stands alone: write a field and a value, as workload:{word}',
    field: 'There is no field “{field}”', near: 'There is no field “{field}”: did you mean {nearest}?',
    operator: '{field} takes one of {allowed}', value: '{field} is one of {allowed}', unit: '{field} needs a unit, as {value}s or {value}ms',
    duration: '{field} wants a time, as 250ms, 2s or 1.5m', tokens: '{field} wants a number of tokens, as 800 or 4k', integer: '{field} wants a whole number', empty: '{field} has no value yet',
    quote: 'Quotes stand around a whole value, as workload:"my own"', negation: 'After the minus comes a field, as -status:ok', terms: 'More than 32 terms', long: 'More than 1,000 characters',
  },
  {
    filter: '筛选请求', focus: '筛选请求', hint: 'workload:legal ttft>2s -status:ok', offers: '此处可填写的内容',
    bare: '“{word}” 单独出现：请写成字段加值，例如 workload:{word}',
    field: '没有字段 “{field}”', near: '没有字段 “{field}”：是否想写 {nearest}？',
    operator: '{field} 可用的运算符：{allowed}', value: '{field} 只能是 {allowed}', unit: '{field} 需要单位，例如 {value}s 或 {value}ms',
    duration: '{field} 需要时间，例如 250ms、2s 或 1.5m', tokens: '{field} 需要 token 数，例如 800 或 4k', integer: '{field} 需要整数', empty: '{field} 还没有值',
    quote: '引号须包住整个值，例如 workload:"my own"', negation: '减号后面是字段，例如 -status:ok', terms: '超过 32 个条件', long: '超过 1,000 个字符',
  },
)

function say(e: FilterError): string {
  if (e.code === 'field') return e.nearest === '' ? t('field', { field: e.field }) : t('near', { field: e.field, nearest: e.nearest })
  return t(e.code, { ...e })
}

export function FilterField({ filter, onFilter, workloads, finishes }: { filter: string; onFilter: (f: string) => void; workloads: readonly string[]; finishes: readonly string[] }) {
  const id = useId()
  const [text, setText] = useState(filter)
  const [caret, setCaret] = useState(0)
  const [open, setOpen] = useState(false)
  const [chosen, setChosen] = useState(-1)
  const field = useRef<HTMLInputElement>(null)
  const sent = useRef(filter)
  useEffect(() => {
    // Only what came from elsewhere is taken over: what is being typed must stay.
    if (filter === sent.current) return
    sent.current = filter
    setText(filter)
  }, [filter])
  useEffect(() => {
    if (text === sent.current || parseFilter(text).errors.length > 0) return
    const timer = setTimeout(() => { sent.current = text; onFilter(text) }, 250)
    return () => clearTimeout(timer)
  }, [text])
  useKeys([{ keys: '/', text: () => t('focus'), run: () => field.current?.focus() }])

  const errors = parseFilter(text).errors
  const completion = completeFilter(text, caret, { workloads, finishes })
  const shown = open && completion.items.length > 0
  // What is still being written is no error yet.
  const error = errors.find(e => !(open && [...text].length === e.at + e.length && completion.items.length > 0))
  const choose = (item: string) => {
    const done = !/[:>]$/.test(item)
    const next = text.slice(0, completion.from) + item + (done && text[completion.to] === undefined ? ' ' : '') + text.slice(completion.to)
    setText(next)
    setChosen(-1)
    const at = completion.from + item.length + (done && text[completion.to] === undefined ? 1 : 0)
    setCaret(at)
    requestAnimationFrame(() => field.current?.setSelectionRange(at, at))
  }
  const onKey = (e: KeyboardEvent) => {
    const items = completion.items
    if (shown && (e.key === 'ArrowDown' || e.key === 'ArrowUp')) {
      setChosen(c => (e.key === 'ArrowDown' ? (c + 1) % items.length : (c <= 0 ? items.length : c) - 1))
    } else if (shown && (e.key === 'Enter' || e.key === 'Tab') && (chosen >= 0 || (e.key === 'Tab' && !e.shiftKey && text.slice(completion.from, caret) !== ''))) {
      choose(items[Math.max(chosen, 0)]!)
    } else if (e.key === 'Escape' && shown) {
      setOpen(false)
      e.stopPropagation()
    } else if (e.key === 'Enter') {
      setOpen(false)
      return
    } else return
    e.preventDefault()
  }
  const follow = () => { setCaret(field.current?.selectionStart ?? 0); setChosen(-1) }
  const characters = [...text]
  return (
    <div class="rq-filter no-print">
      <input
        ref={field} class="field" type="text" spellcheck={false} autocomplete="off" autocapitalize="off" placeholder={t('hint')} value={text} aria-label={t('filter')}
        role="combobox" aria-expanded={shown} aria-controls={id} aria-autocomplete="list" aria-activedescendant={shown && chosen >= 0 ? `${id}-${chosen}` : undefined}
        aria-invalid={error !== undefined} aria-describedby={error ? `${id}-error` : undefined}
        onInput={e => { setText(e.currentTarget.value); setOpen(true); follow() }} onClick={follow} onKeyUp={e => { if (e.key.startsWith('Arrow') && !shown || e.key === 'Home' || e.key === 'End') follow() }}
        onFocus={() => { setOpen(true); follow() }} onBlur={() => setOpen(false)} onKeyDown={onKey}
      />
      {shown && (
        <ul class="rq-offers" id={id} role="listbox" aria-label={t('offers')}>
          {completion.items.map((item, i) => (
            <li key={item} id={`${id}-${i}`} role="option" aria-selected={i === chosen} onMouseDown={e => { e.preventDefault(); choose(item) }}>{item}</li>
          ))}
        </ul>
      )}
      {error && (
        <p class="rq-error" id={`${id}-error`} role="status">
          <mark>{characters.slice(error.at, error.at + Math.min(error.length, 60)).join('')}</mark>{' '}{say(error)}
        </p>
      )}
    </div>
  )
}
