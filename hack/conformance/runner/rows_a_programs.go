package main

import (
	"strings"

	. "github.com/onsi/gomega"
)

// Rows A31 and A37 to A43: what programs do and see.

func a31(t *row) {
	for lang, code := range map[string]string{
		"node":   "console.error('sorry'); process.exitCode = 7",
		"python": "import sys; print('sorry', file=sys.stderr); sys.exit(7)",
	} {
		got := t.run(m{"lang": lang, "code": code})
		t.Expect(got.ExitCode).To(Equal(7))
		t.Expect(got.Success).To(BeFalse())
		t.Expect(got.Stderr).To(Equal("sorry\n"))
	}
}

func a37(t *row) {
	for _, c := range []struct {
		lang, code string
		words      []string
	}{
		{"node", "throw new TypeError('bad day')", []string{"TypeError", "bad day"}},
		{"python", "raise TypeError('bad day')", []string{"TypeError", "bad day"}},
		{"node", "\n\nlet = = 1", []string{"SyntaxError", ":3"}},
		{"python", "a = 1\n\nif\n", []string{"SyntaxError", "line 3"}},
	} {
		got := t.run(m{"lang": c.lang, "code": c.code})
		t.Expect(got.ExitCode).To(Equal(1), c.code)
		for _, word := range c.words {
			t.Expect(got.Stderr).To(ContainSubstring(word), c.code)
		}
	}
}

func a38(t *row) {
	for lang, code := range map[string]string{
		"node":   "console.log('out'); console.error('err')",
		"python": "import sys; print('out'); print('err', file=sys.stderr)",
	} {
		got := t.run(m{"lang": lang, "code": code})
		t.Expect([]string{got.Stdout, got.Stderr}).To(Equal([]string{"out\n", "err\n"}), lang)
	}
}

func a39(t *row) {
	const words = "čau, 日本, 🎉 <&>"
	t.prints("node", "console.log('"+words+"')", words+"\n")
	t.prints("python", "print('"+words+"')", words+"\n")
}

func a40(t *row) {
	for lang, code := range map[string]string{
		"node":   "for (let i = 0; i < 40; i++) process.stdout.write('x'.repeat(100_000)); console.log('the end')",
		"python": "print('x' * 4_000_000); print('the end')",
	} {
		got := t.run(m{"lang": lang, "code": code, "timeout_ms": 20_000})
		t.Expect(len(got.Stdout)).To(BeNumerically("<", 900<<10))
		t.Expect(got.Stdout).To(HaveSuffix("the end\n"))
		t.Expect(got.Truncated).To(BeTrue())
		t.Expect(strings.Trim(got.Stdout, "x")).To(ContainSubstring("left out"), "a mark where it was cut")
	}
	t.refuses("timeout", runID, m{"lang": "python", "code": "while True: print('x' * 1000)", "timeout_ms": 500})
}

func a41(t *row) {
	for lang, code := range endless {
		t.refuses("timeout", runID, m{"lang": lang, "code": code, "timeout_ms": 300})
		t.prints(lang, map[string]string{"node": "console.log(1)", "python": "print(1)"}[lang], "1\n")
	}
}

func a42(t *row) {
	for lang, code := range map[string]string{
		"node":   "console.log('out'); console.error('err'); process.exit(3)",
		"python": "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)",
	} {
		got := t.run(m{"lang": lang, "code": code})
		t.Expect(got.ExitCode).To(Equal(3))
		t.Expect([]string{got.Stdout, got.Stderr}).To(Equal([]string{"out\n", "err\n"}), lang)
	}
}

func a43(t *row) {
	t.prints("node", "import { fileURLToPath } from 'node:url'; console.log(process.argv[1] === fileURLToPath(import.meta.url), process.argv.length)", "true 2\n")
	t.prints("python", "import sys; print(sys.argv == [__file__], __name__)", "True __main__\n")
}
