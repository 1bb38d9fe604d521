// The frame of a page that shows one part of a run: its name, and the way back to the whole.

import type { ComponentChildren } from 'preact'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { HttpSource, type RunDoc, type Source } from '../../api'
import { words } from '../../i18n'
import { Later, Trouble, useLoad } from '../../ui'

const t = words(
  { back: 'The run', reading: 'Reading the run' },
  { back: '返回运行', reading: '正在读取运行' },
)

/** Reads the run of an id, again every two seconds while it goes on, and shows what of it makes. */
export function PartOfRun({ id, of }: { id: string; of: (doc: RunDoc, source: Source, tick: number) => ComponentChildren }) {
  const source = useMemo(() => new HttpSource(id), [id])
  const [tick, setTick] = useState(0)
  const { value: doc, error, again } = useLoad(s => source.doc(s), [source, tick])
  const live = doc?.live ?? false
  useEffect(() => {
    if (!live) return
    const timer = setInterval(() => setTick(n => n + 1), 2000)
    return () => clearInterval(timer)
  }, [live])
  if (doc === null) return <div class="page">{error ? <Trouble error={error} again={again} /> : <Later><p class="muted">{t('reading')}</p></Later>}</div>
  return (
    <div class="page">
      <div class="page-head"><h1>{doc.run.name || id}</h1><a href={`/runs/${encodeURIComponent(id)}`}>{t('back')}</a></div>
      {of(doc, source, tick)}
    </div>
  )
}
