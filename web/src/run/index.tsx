import { HttpSource } from '../api'
import type { PageProps } from '../app'
import { useLoad, Trouble } from '../ui'

export default function RunPage({ path }: PageProps) {
  const id = path[0] ?? ''
  const doc = useLoad((s) => new HttpSource(id).doc(s), [id])
  if (doc.error) return <div class="page"><Trouble error={doc.error} again={doc.again} /></div>
  return <div class="page"><h1>{doc.value?.run.name ?? id}</h1></div>
}
