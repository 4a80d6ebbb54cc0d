package web_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/sandbox"
)

// shown is what the terminal in a document shows.
func shown(document string) string {
	return document + `.querySelector(".xterm-rows")?.innerText.replaceAll("\u00a0", " ")`
}

// untilShown waits until a line of the terminal is as given.
func (v *visit) untilShown(document, line string) {
	v.t.Helper()
	v.until(fmt.Sprintf(`(%s || "").split("\n").some((l) => l.trimEnd() === %q)`, shown(document), line))
}

func TestTerminal(t *testing.T) {
	is := is.New(t)
	v := newVisit(t, sandbox.Config{})
	sb := v.lease(sandbox.Spec{})
	v.open(sb, "terminal", "&arg=main")
	v.until(shown("document") + `?.match(/[$%]/)`)
	is.Equal(value[string](v, "location.search"), "?arg=main") // the ticket is nowhere to be read
	v.do(keys("PS1='> '; clear\r"))
	v.untilShown("document", ">")
	v.do(keys("echo $((6 * 7)) é 漢字\r"))
	v.untilShown("document", "42 é 漢字")

	// The shell's size is the page's, also when that changes.
	v.do(keys("clear; stty size\r"))
	before := value[string](v, "document.body.dataset.size")
	v.untilShown("document", before)
	v.do(chromedp.EmulateViewport(700, 400))
	v.until(fmt.Sprintf("document.body.dataset.size !== %q", before))
	v.do(keys("stty size\r"))
	v.untilShown("document", value[string](v, "document.body.dataset.size"))
	v.do(chromedp.EmulateViewport(1100, 700))

	// A paste of several lines is one, and waits for Enter.
	v.allow("clipboard-read", "clipboard-write")
	value[any](v, `navigator.clipboard.writeText("echo pasted one\necho pasted two")`)
	v.edit("v", chromedp.ModifierCtrl|chromedp.ModifierShift, "PasteAndMatchStyle")
	v.until(shown("document") + `.includes("echo pasted two")`)
	is.True(!strings.Contains(value[string](v, shown("document")), "\npasted one"))
	v.do(keys("\r"))
	v.untilShown("document", "pasted two")

	// What is selected can be copied.
	value[any](v, `navigator.clipboard.writeText("nothing")`)
	v.do(chromedp.MouseClickXY(30, 12, chromedp.ClickCount(3)))
	v.edit("c", chromedp.ModifierCtrl, "Copy")
	is.True(value[string](v, `navigator.clipboard.readText()`) != "nothing")

	// It is come back to with another ticket, and says so when it is over.
	v.do(keys("here=before; clear; echo shown be\"\"fore\r"))
	v.untilShown("document", "shown before")
	v.do(chromedp.Reload())
	v.until(`!document.getElementById("status").hidden`) // the ticket was good once
	v.open(sb, "terminal", "&arg=main")
	v.untilShown("document", "shown before")
	v.do(keys("echo it is $here\r"))
	v.untilShown("document", "it is before")
	v.do(keys("exit\r"))
	v.until(`document.getElementById("status").textContent.includes("terminal closed")`)
}

// TestPagesAreKeptToThemselves has neither page be framed by, nor ask, another
// site.
func TestPagesAreKeptToThemselves(t *testing.T) {
	is := is.New(t)
	v := newVisit(t, sandbox.Config{})
	sb := v.lease(sandbox.Spec{})
	v.do(chromedp.Navigate(v.url + "/"))
	v.do(chromedp.Navigate(v.url + "/v1/sandbox/" + sb.ID() + "/terminal"))
	v.until(`document.getElementById("status")?.hidden === false`)
	blocked := value[bool](v, `fetch("https://elsewhere.example/").then(() => false, () => true)`)
	is.True(blocked)
	is.Equal(value[string](v, `new Promise((done) => {
		addEventListener("securitypolicyviolation", (e) => done(e.effectiveDirective));
		document.body.append(Object.assign(document.createElement("script"), { text: "1" }));
	})`), "script-src-elem")
}
