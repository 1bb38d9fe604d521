package workload

import "plimsoll/internal/workload/content"

// WordsGenerator is the name of the generator of plain English sentences.
const WordsGenerator = content.WordsName

// Words renders every part as plain English sentences: content.Words, under the
// name of the room.
type Words = content.Words
