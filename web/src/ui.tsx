// Small pieces that every page uses: figures, waiting, trouble, emptiness, links between keys
// and words. They hold no data of their own.

import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { ApiError } from './api'
import { type Figure, local, utc } from './format'
import { words } from './i18n'
import { told } from './i18n/told'

const t = words(
  { trouble: 'This could not be read', again: 'Try again' },
  { trouble: '无法读取', again: '重试' },
)

/** A figure with its unit small and grey. */
export function Num({ f, class: c, title }: { f: Figure; class?: string; title?: string | undefined }) {
  return <span class={'num' + (c ? ' ' + c : '')} title={title}>{f.text}{f.unit && <span class="unit">{f.unit}</span>}</span>
}

/** An instant in local time, with UTC on hover. */
export function Time({ at }: { at: string }) {
  return <time dateTime={at} title={utc(at)} class="num">{local(at)}</time>
}

export interface Loaded<T> { value: T | null; error: Error | null; loading: boolean; again: () => void }

/**
 * What load gives, read again whenever a dependency changes; an older answer never overwrites
 * a newer, and the last value stays on screen meanwhile.
 */
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, deps: readonly unknown[]): Loaded<T> {
  const [state, set] = useState<{ value: T | null; error: Error | null; loading: boolean }>({ value: null, error: null, loading: true })
  const [turn, setTurn] = useState(0)
  useEffect(() => {
    const abort = new AbortController()
    set((s) => (s.loading ? s : { ...s, loading: true }))
    load(abort.signal).then(
      (value) => { if (!abort.signal.aborted) set({ value, error: null, loading: false }) },
      (error: unknown) => { if (!abort.signal.aborted) set((s) => ({ value: s.value, error: error instanceof Error ? error : new Error(String(error)), loading: false })) },
    )
    return () => abort.abort()
  }, [...deps, turn])
  return { ...state, again: () => setTurn((n) => n + 1) }
}

/**
 * Counts up every ms while the page is seen, and when the returned function is called. What is
 * still being read is not begun again: on a slow line nothing would ever arrive.
 */
export function useTick(ms: number | null, reading: { readonly current: boolean }): [number, () => void] {
  const [tick, set] = useState(0)
  useEffect(() => {
    if (ms === null) return
    const timer = setInterval(() => { if (!document.hidden && !reading.current) set((n) => n + 1) }, ms)
    return () => clearInterval(timer)
  }, [ms])
  return [tick, () => set((n) => n + 1)]
}

/** Shows its children only when it has been there for 300 ms: what is quicker needs no sign of waiting. */
export function Later({ children }: { children: ComponentChildren }) {
  const [show, set] = useState(false)
  useEffect(() => { const id = setTimeout(() => set(true), 300); return () => clearTimeout(id) }, [])
  return show ? <>{children}</> : null
}

/** An error in words: those of the server where it refused. */
export const saying = (error: Error): string => told(error.message, error instanceof ApiError ? error.said : undefined)

/** An error in its own words, with the way out. */
export function Trouble({ error, again }: { error: Error; again?: () => void }) {
  const fix = error instanceof ApiError ? error.fix : ''
  return (
    <div class="trouble" role="alert">
      <strong>{t('trouble')}: {saying(error)}</strong>
      {fix && <span class="fix">{told(fix)}</span>}
      {again && <span><button type="button" class="button small" onClick={again}>{t('again')}</button></span>}
    </div>
  )
}

/** Nothing here yet, and what to type so that there is. */
export function Empty({ text, type, children }: { text: string; type?: string; children?: ComponentChildren }) {
  return <div class="empty"><p>{text}</p>{type && <code>{type}</code>}{children}</div>
}

/** One of a few, side by side. */
export function Switch<T extends string>({ value, options, onChange, label }: { value: T; options: readonly (readonly [T, string])[]; onChange: (v: T) => void; label: string }) {
  return (
    <span class="switch" role="group" aria-label={label}>
      {options.map(([v, text]) => <button key={v} type="button" aria-pressed={v === value} onClick={() => onChange(v)}>{text}</button>)}
    </span>
  )
}

/** A dialog of the browser's own kind: focus stays in it, Escape closes it. */
export function Dialog({ title, onClose, children }: { title: string; onClose: () => void; children: ComponentChildren }) {
  const ref = useRef<HTMLDialogElement>(null)
  useEffect(() => { const d = ref.current; if (d && !d.open) d.showModal() }, [])
  const outside = (e: MouseEvent) => { if (e.target === e.currentTarget) onClose() }
  return (
    <dialog ref={ref} class="dialog" aria-label={title} onClose={onClose} onClick={outside}>
      <div class="stack">
        <h1>{title}</h1>
        {children}
      </div>
    </dialog>
  )
}
