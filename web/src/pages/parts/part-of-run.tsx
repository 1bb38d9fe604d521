// The frame of a page that shows one part of a run: its name, and the way back to the whole.

import type { ComponentChildren } from 'preact'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { HttpSource, type RunDoc, type Source } from '../../api'
import { words } from '../../i18n'
import { Later, Trouble, useLoad, useTick } from '../../ui'

const t = words(
  { back: 'The run', reading: 'Reading the run' },
  { back: '返回运行', reading: '正在读取运行' },
)

/** Reads the run of an id, again every two seconds while it goes on, and shows what of it makes. */
export function PartOfRun({ id, of }: { id: string; of: (doc: RunDoc, source: Source, tick: number) => ComponentChildren }) {
  const source = useMemo(() => new HttpSource(id), [id])
  const [live, setLive] = useState(false)
  const reading = useRef(true)
  const [tick] = useTick(live ? 2000 : null, reading)
  const { value: doc, error, again, loading } = useLoad(s => source.doc(s), [source, tick])
  reading.current = loading
  useEffect(() => setLive(doc?.live ?? false), [doc])
  if (doc === null) return <div class="page">{error ? <Trouble error={error} again={again} /> : <Later><p class="muted">{t('reading')}</p></Later>}</div>
  return (
    <div class="page">
      <div class="page-head"><h1>{doc.run.name || id}</h1><a href={`/runs/${encodeURIComponent(id)}`}>{t('back')}</a></div>
      {of(doc, source, tick)}
    </div>
  )
}
