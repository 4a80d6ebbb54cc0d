package web_test

import (
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
	v.do(chromedp.Navigate(v.url+"/"), chromedp.Click("#key"), keys("sk-wrong\r"))
	v.until(`document.getElementById("say").textContent.includes("not valid")`)
	v.do(chromedp.Click("#key"), keys(v.key+"\r"))
	v.until(`!document.getElementById("main").hidden`)
	v.do(chromedp.Click("#lease button"))
	v.until(`document.querySelectorAll("#rows li").length === 1`)
	v.until(shown(inFrame+"?") + `?.includes("$")`)
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
	v.until(shown(inFrame+"?") + `?.includes("$")`)

	// Files and ports.
	sb := sandbox.Handle(v.rt, id)
	is.NoErr(sb.Command("sh", "-c", "mkdir -p sub && echo hello > sub/file.txt").Run(v.ctx))
	v.do(chromedp.Click("[data-view=files]"))
	v.until(`[...document.querySelectorAll("#view td button")].some((b) => b.textContent === "sub/" && (b.click(), true))`)
	v.until(`[...document.querySelectorAll("#view td button")].some((b) => b.textContent === "file.txt")`)
	serve(t, sb)
	v.do(chromedp.Click("[data-view=ports]"))
	v.until(`[...document.querySelectorAll("#view td button")].some((b) => b.textContent === "8000")`)

	// Somebody else's end of it is seen without a word.
	is.NoErr(sb.End(v.ctx))
	v.until(`document.querySelectorAll("#rows li").length === 0 && document.getElementById("one").hidden`)
}
