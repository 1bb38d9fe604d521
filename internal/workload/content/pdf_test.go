package content

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// deflated is what FlateDecode reads.
func deflated(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := zlib.NewWriterLevel(&out, zlib.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// stream is a stream object with the entries of its dictionary.
func stream(entries string, b []byte) string {
	return fmt.Sprintf("<<%s/Length %d>>stream\n%s\nendstream", entries, len(b), b)
}

// pdfObjects writes a PDF of these objects, the first of them its catalogue. If
// packed, all that are no streams lie in a compressed object stream, and the table
// of objects is a stream too (PDF 1.5).
func pdfObjects(t testing.TB, packed bool, objects []string) []byte {
	t.Helper()
	var out bytes.Buffer
	out.WriteString("%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
	var table bytes.Buffer // entries of 1, 4 and 2 bytes
	entry := func(kind byte, a int, b int) {
		table.WriteByte(kind)
		table.Write(binary.BigEndian.AppendUint32(nil, uint32(a)))
		table.Write(binary.BigEndian.AppendUint16(nil, uint16(b)))
	}
	entry(0, 0, 65535)
	offsets := make([]int, 0, len(objects))
	var index, inner bytes.Buffer
	n := 0
	for i, o := range objects {
		if packed && !strings.HasSuffix(o, "endstream") {
			fmt.Fprintf(&index, "%d %d ", i+1, inner.Len())
			inner.WriteString(o + " ")
			entry(2, len(objects)+1, n)
			n++
			continue
		}
		offsets = append(offsets, out.Len())
		entry(1, out.Len(), 0)
		fmt.Fprintf(&out, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	if packed {
		entry(1, out.Len(), 0)
		fmt.Fprintf(&out, "%d 0 obj\n%s\nendobj\n", len(objects)+1,
			stream(fmt.Sprintf("/Type/ObjStm/N %d/First %d/Filter/FlateDecode", n, index.Len()), deflated(t, append(index.Bytes(), inner.Bytes()...))))
		at := out.Len()
		entry(1, at, 0)
		fmt.Fprintf(&out, "%d 0 obj\n%s\nendobj\nstartxref\n%d\n%%%%EOF\n", len(objects)+2,
			stream(fmt.Sprintf("/Type/XRef/Size %d/W[1 4 2]/Root 1 0 R/Filter/FlateDecode", len(objects)+3), deflated(t, table.Bytes())), at)
		return out.Bytes()
	}
	at := out.Len()
	fmt.Fprintf(&out, "xref\n0 %d\n0000000000 65535 f \n", len(objects)+1)
	for _, o := range offsets {
		fmt.Fprintf(&out, "%010d 00000 n \n", o)
	}
	fmt.Fprintf(&out, "trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n", len(objects)+1, at)
	return out.Bytes()
}

// toUnicode maps the codes 1.. of two bytes to the characters.
func toUnicode(chars []rune) string {
	var b strings.Builder
	b.WriteString("/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /Own def /CMapType 2 def\n" +
		"1 begincodespacerange <0000> <FFFF> endcodespacerange\n")
	for i := 0; i < len(chars); i += 100 {
		part := chars[i:min(i+100, len(chars))]
		fmt.Fprintf(&b, "%d beginbfchar\n", len(part))
		for j, c := range part {
			fmt.Fprintf(&b, "<%04X> <", i+j+1)
			for _, u := range utf16.Encode([]rune{c}) {
				fmt.Fprintf(&b, "%04X", u)
			}
			b.WriteString(">\n")
		}
		b.WriteString("endbfchar\n")
	}
	return b.String() + "endcmap end end\n"
}

// pdfFile writes a PDF with a page of each text, in lines of at most 80
// characters. What is ASCII is in Helvetica, anything else in a font whose codes
// say nothing without its table to Unicode, as programs embed them.
func pdfFile(t testing.TB, packed bool, pages ...string) []byte {
	t.Helper()
	var chars []rune
	code := map[rune]int{}
	objects := []string{
		"<</Type/Catalog/Pages 2 0 R>>", "", "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
		"<</Type/Font/Subtype/Type0/BaseFont/Own/Encoding/Identity-H/DescendantFonts[5 0 R]/ToUnicode 6 0 R>>",
		"<</Type/Font/Subtype/CIDFontType2/BaseFont/Own/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>/DW 1000" +
			"/FontDescriptor<</Type/FontDescriptor/FontName/Own/Flags 4/FontBBox[0 -200 1000 800]/ItalicAngle 0/Ascent 800/Descent -200/CapHeight 700/StemV 80>>>>",
		"",
	}
	var kids strings.Builder
	for _, text := range pages {
		var b strings.Builder
		b.WriteString("BT 7 TL 40 780 Td\n")
		for line := range strings.SplitSeq(text, "\n") {
			for runes := []rune(line); len(runes) > 0; {
				n := min(80, len(runes))
				for n < len(runes) && n > 1 && runes[n] < 128 && runes[n-1] != ' ' {
					n--
				}
				part := string(runes[:n])
				runes = runes[n:]
				if len(part) == n {
					fmt.Fprintf(&b, "/F1 6 Tf (%s) Tj T*\n", strings.NewReplacer(`\`, `\\`, "(", `\(`, ")", `\)`).Replace(part))
					continue
				}
				b.WriteString("/F2 6 Tf <")
				for _, c := range part {
					if code[c] == 0 {
						chars = append(chars, c)
						code[c] = len(chars)
					}
					fmt.Fprintf(&b, "%04X", code[c])
				}
				b.WriteString("> Tj T*\n")
			}
		}
		b.WriteString("ET")
		at := len(objects)
		fmt.Fprintf(&kids, "%d 0 R ", at+1)
		objects = append(objects,
			fmt.Sprintf("<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F1 3 0 R/F2 4 0 R>>>>/Contents %d 0 R>>", at+2),
			stream("/Filter/FlateDecode", deflated(t, []byte(b.String()))))
	}
	objects[1] = fmt.Sprintf("<</Type/Pages/Kids[%s]/Count %d>>", kids.String(), len(pages))
	objects[5] = stream("", []byte(toUnicode(chars)))
	return pdfObjects(t, packed, objects)
}

// newTestReader starts an interpreter, which is minutes slow under the race detector
// and shares nothing with other goroutines.
func newTestReader(t testing.TB, patience time.Duration) *pdfReader {
	t.Helper()
	if raceEnabled {
		t.Skip("too slow under the race detector")
	}
	r, err := newPDFReader(false, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// The text of pages comes out whole, in their order, in English and in Chinese,
// from files with and without compressed objects.
func TestPDF(t *testing.T) {
	r := newTestReader(t, time.Hour)
	contract, lang, err := Parse("contract")
	if err != nil {
		t.Fatal(err)
	}
	chinese, zh, err := Parse("contract/zh")
	if err != nil {
		t.Fatal(err)
	}
	english := []string{string(contract.Append(nil, 1, 1000, lang)), string(contract.Append(nil, 2, 1000, lang)), "The last page (\\ and its brackets)."}
	han := []string{string(chinese.Append(nil, 1, 800, zh)), "第二页：𠮷野家在东京。"}
	for _, packed := range []bool{false, true} {
		got, err := r.text(pdfFile(t, packed, english...))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(strings.Fields(strings.Join(english, " ")), strings.Fields(string(got))); d != "" {
			t.Errorf("packed %v: words (-want +got)\n%s", packed, d)
		}
		if n := bytes.Count(got, []byte("\n\n")); n < 3 {
			t.Errorf("%d empty lines after 3 pages", n)
		}
		// A word that a line parts is one again; so is, alas, one with a hyphen of its own.
		got, err = r.text(pdfFile(t, packed, "The exam-\nple is well-\nknown, 3 -\n4."))
		if err != nil || string(got) != "The example is wellknown, 3 -\n4.\n\n" {
			t.Errorf("packed %v: %q, %v", packed, got, err)
		}
		got, err = r.text(pdfFile(t, packed, han...))
		if err != nil {
			t.Fatal(err)
		}
		// No words are apart in Chinese, so that neither are lines.
		join := func(s string) string { return strings.Join(strings.Fields(s), "") }
		if want := join(strings.Join(han, "")); join(string(got)) != want {
			t.Errorf("packed %v: %q\nwant %q", packed, got, want)
		}
	}
}

// onePage are the objects of a PDF with one page of these resources and content,
// to which more may be added from number 5 on.
func onePage(resources, content string, more ...string) []string {
	return append([]string{
		"<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[3 0 R]/Count 1>>",
		"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<<" + resources + ">>>>",
		stream("", []byte(content)),
	}, more...)
}

// formOfForms draws a form ten times in each of n forms, one within the other, and
// a letter in the innermost.
func formOfForms(t testing.TB, n int) []byte {
	var forms []string
	for i := range n {
		forms = append(forms, stream(fmt.Sprintf("/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</X %d 0 R>>>>", 6+i), []byte(strings.Repeat("/X Do ", 10))))
	}
	forms = append(forms, stream("/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>", []byte("BT /F 9 Tf (x) Tj ET")))
	return pdfObjects(t, false, onePage("/XObject<</X 5 0 R>>", "/X Do", forms...))
}

// What is no text is refused by name, and what loops or grows ends.
func TestPDFRefused(t *testing.T) {
	good := string(pdfFile(t, false, "Some words of a document."))
	packed := string(pdfFile(t, true, "Some words of a document."))
	inner := deflated(t, deflated(t, bytes.Repeat([]byte(" "), 400<<20)))
	for name, c := range map[string]struct {
		file, want string
	}{
		"empty":        {"", "PDF: "},
		"head only":    {"%PDF-1.7\n", "PDF: "},
		"other":        {strings.Repeat("This is a text. ", 100), "PDF: "},
		"cut in two":   {good[:len(good)/2], "PDF: "},
		"picture":      {string(pdfObjects(t, false, onePage("", "0 0 100 100 re f"))), "PDF: no text on its pages (1)"},
		"password":     {strings.Replace(good, "/Root 1 0 R", "/Root 1 0 R/ID[<00><00>]/Encrypt<</Filter/Standard/V 2/R 3/Length 128/P -4/O("+strings.Repeat("o", 32)+")/U("+strings.Repeat("u", 32)+")>>", 1), "it needs a password"},
		"pages":        {string(pdfObjects(t, false, []string{"<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[2 0 R 2 0 R]/Count 100000>>"})), "PDF: "},
		"spaces":       {string(pdfObjects(t, false, append(onePage("", "")[:3], stream("/Filter[/FlateDecode/FlateDecode]", inner)))), "PDF: page 1: it is broken or needs more than 256 MiB of memory"},
		"own form":     {string(pdfObjects(t, false, onePage("/XObject<</X 5 0 R>>", "/X Do", stream("/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</X 5 0 R>>>>", []byte("/X Do"))))), "no text on its pages (1)"},
		"many forms":   {string(formOfForms(t, 20)), "not read within 1s"},
		"no such font": {string(pdfObjects(t, false, onePage("/Font<</F 9 0 R>>", "BT /F 9 Tf () Tj ET"))), "no text on its pages (1)"},
	} {
		t.Run(name, func(t *testing.T) {
			patience := time.Hour
			switch name {
			case "many forms":
				patience = time.Second // it would take twenty
			case "spaces":
				if testing.Short() {
					t.Skip("it takes six seconds of a core to fill the memory")
				}
			}
			r := newTestReader(t, patience)
			got, err := r.text([]byte(c.file))
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q, %v, want %q", got, err, c.want)
			}
		})
	}
	// A table of objects that names itself as the one before.
	for name, file := range map[string]string{
		"table":  strings.Replace(good, "/Root 1 0 R", fmt.Sprintf("/Root 1 0 R/Prev %d", strings.LastIndex(good, "xref\n0")), 1),
		"stream": strings.Replace(packed, "/W[1 4 2]", fmt.Sprintf("/W[1 4 2]/Prev %d", strings.LastIndex(packed[:strings.LastIndex(packed, "/XRef")], " 0 obj")-1), 1),
	} {
		t.Run(name+" loops", func(t *testing.T) {
			got, err := newTestReader(t, time.Hour).text([]byte(file))
			if err != nil || string(got) != "Some words of a document.\n\n" {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// mutated returns a file with some of its bytes changed, parts of it left out,
// doubled or put elsewhere, or its end cut off.
func mutated(file []byte, r *rand.Rand) []byte {
	b := bytes.Clone(file)
	for range 1 + r.IntN(8) {
		if len(b) < 2 {
			break
		}
		i, j := r.IntN(len(b)), r.IntN(len(b))
		i, j = min(i, j), max(i, j)
		switch r.IntN(8) {
		case 0, 1:
			b[i] ^= 1 << r.IntN(8)
		case 2, 3: // other numbers: lengths, offsets, references
			if at := bytes.IndexAny(b[i:], "0123456789"); at >= 0 {
				b[i+at] = "0123456789"[r.IntN(10)]
			}
		case 4:
			b = b[:j]
		case 5:
			j = min(j, i+64)
			b = append(b[:i], b[j:]...)
		case 6:
			j = min(j, i+256)
			b = append(b[:j], append(bytes.Clone(b[i:j]), b[j:]...)...)
		case 7:
			copy(b[i:], b[j:min(len(b), j+r.IntN(64))])
		}
	}
	return b
}

// seedFiles are small PDFs of all the kinds that are made here.
func seedFiles(t testing.TB) [][]byte {
	return [][]byte{
		pdfFile(t, false, "Some words of a document.", "And a second page."),
		pdfFile(t, true, "Some words of a document.", "And a second page."),
		pdfFile(t, true, "合同的第一页。\n第二行。"),
		formOfForms(t, 2),
	}
}

// readBroken reads a file that may be broken and holds what it gives: an end in
// time, with a text or an error of one line. r is fit for the next file after it.
func readBroken(t *testing.T, r **pdfReader, file []byte) {
	t.Helper()
	began := time.Now()
	text, err := (*r).text(file)
	if took := time.Since(began); took > (*r).patience+2*time.Minute { // a busy machine
		t.Fatalf("%v for %q", took, file)
	}
	if err == nil && (!utf8.Valid(text) || len(text) == 0 || bytes.IndexByte(text, 0) >= 0) {
		t.Fatalf("text %q of %q", text, file)
	}
	if err != nil && (text != nil || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "panic")) {
		t.Fatalf("%q, error %v of %q", text, err, file)
	}
	if (*r).ctx.Err() != nil {
		*r = newTestReader(t, (*r).patience)
	}
}

// Files that are damaged in any way end with a text or an error. Go's own fuzzing
// would see nothing of what WebAssembly does, and be slow about it.
func TestPDFDamaged(t *testing.T) {
	r := newTestReader(t, 10*time.Second)
	rnd := rand.New(rand.NewPCG(1, 2))
	n := 25
	if testing.Short() {
		n = 5
	}
	for _, file := range seedFiles(t) {
		for i := range 10 {
			readBroken(t, &r, file[:len(file)*i/10])
		}
		for range n {
			readBroken(t, &r, mutated(file, rnd))
		}
	}
}
