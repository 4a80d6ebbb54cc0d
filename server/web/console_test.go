package web_test

import (
	"strconv"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/sandbox"
)

const inFrame = `document.querySelector("iframe")?.contentDocument`

// TestConsole has a person with a key see what they have, and do what the API
// does.
func TestConsole(t *testing.T) {
	is := is.New(t)
	v := newVisit(t, sandbox.Config{})
	v.do(chromedp.Navigate(v.url + "/"))
	v.until(`document.activeElement.id === "key"`)
	v.do(keys("sk-wrong\r"))
	v.until(`document.getElementById("say").textContent.includes("not valid")`)
	v.do(chromedp.Click("#key"), keys(v.key+"\r"))
	v.until(`!document.getElementById("main").hidden`)
	v.do(chromedp.Click("#lease button"))
	v.until(`document.querySelectorAll("#rows li").length === 1`)
	v.until(shown(inFrame+"?") + `?.match(/[$%]/)`)
	id := value[string](v, `document.querySelector("#rows li").dataset.id`)
	value[any](v, `document.querySelector("iframe").contentDocument.querySelector("textarea").focus()`)
	v.do(keys("PS1='> '; here=before; clear; echo shown be\"\"fore\r"))
	v.untilShown(inFrame+"?", "shown before")
	v.picture("console")

	// A reload comes back to the shell.
	v.do(chromedp.Reload())
	v.until(`document.querySelectorAll("#rows li").length === 1`)
	v.do(chromedp.Click("#rows button"))
	v.untilShown(inFrame+"?", "shown before")
	value[any](v, `document.querySelector("iframe").contentDocument.querySelector("textarea").focus()`)
	v.do(keys("echo it is $here\r"))
	v.untilShown(inFrame+"?", "it is before")

	// A shell that has ended can be begun again.
	v.do(keys("exit\r"))
	v.until(inFrame + `?.getElementById("status").textContent.includes("terminal closed")`)
	value[any](v, `document.querySelector("iframe").contentDocument.querySelector("#status button").click()`)
	v.until(shown(inFrame+"?") + `?.match(/[$%]/)`)

	// Files, by whatever name, and ports.
	sb := sandbox.Handle(v.rt, id)
	is.NoErr(sb.Command("sh", "-c", `for name in sub ' a..b ' "$(printf 'no\377text')"; do mkdir -p "$name" && echo hello > "$name/in $name"; done`).Run(v.ctx))
	for _, name := range []string{"sub", " a..b ", "no\uFFFDtext"} {
		v.do(chromedp.Click("[data-view=files]"))
		v.until(`[...document.querySelectorAll("#view td button")].some((b) => b.textContent === ` + strconv.Quote(name+"/") + ` && (b.click(), true))`)
		v.until(`[...document.querySelectorAll("#view td button")].some((b) => b.textContent === ` + strconv.Quote("in "+name) + `)`)
	}
	serve(t, sb)
	v.do(chromedp.Click("[data-view=ports]"))
	v.until(`[...document.querySelectorAll("#view td button")].some((b) => b.textContent === "8000")`)

	// What goes on elsewhere leaves the focus where it is.
	value[any](v, `document.querySelector("#rows button").focus()`)
	other := v.lease(sandbox.Spec{})
	v.until(`document.querySelectorAll("#rows li").length === 2`)
	is.NoErr(other.End(v.ctx))
	v.until(`document.querySelectorAll("#rows li").length === 1`)
	is.True(value[bool](v, `document.activeElement === document.querySelector("#rows button")`))

	// Somebody else's end of it is seen without a word.
	is.NoErr(sb.End(v.ctx))
	v.until(`document.querySelectorAll("#rows li").length === 0 && document.getElementById("one").hidden`)
}
