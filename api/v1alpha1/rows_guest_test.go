package v1alpha1_test

import "strings"

// busOn gives a guest bus access.
func busOn(spec map[string]any) {
	setAt(spec, "network", "Enabled")
	setAt(spec, "busAccess", "Enabled")
}

// guestRows are about the sandbox that code runs in.
func guestRows() []row {
	return at(guests("Node"), func() []row {
		return []row{
			takes("an image of the catalog", set("image", "python-3.12_slim")),
			takes("resources as strings", set("resources", "{cpu: 1500m, memory: 512Mi}")),
			takes("resources as numbers", set("resources", "{cpu: 2, memory: 1073741824}")),
			takes("the largest resources", set("resources", "{cpu: 255, memory: 1Ti}")),
			takes("a network without bus access", set("network", "Enabled")),
			takes("bus access with a network", set("network", "Enabled"), set("busAccess", "Enabled")),
			takes("bus access that is off without a network", set("busAccess", "Disabled")),
			takes("patterns of functions that guests may call", busOn, set("busAllow", `["shop::price", "shop::*", "*"]`)),
			takes("no function that guests may call", busOn, set("busAllow", "[]")),
			takes("setup commands", set("setup", `["make", "cd /srv && ./configure | tee log"]`)),
			takes("16 long setup commands", manyTexts("setup", 16, strings.Repeat("x", 4096))),
			takes("64 long patterns of functions", busOn, manyTexts("busAllow", 64, strings.Repeat("x", 250))),
			refuses("an image reference instead of a catalog name", says("spec.image"), set("image", "registry/python:3")),
			refuses("an empty image", says("spec.image"), setText("image", "")),
			refuses("no processors", says("spec.resources.cpu", "more than 0"), set("resources.cpu", "0")),
			refuses("negative processors", says("spec.resources.cpu", "more than 0"), set("resources.cpu", "-1")),
			refuses("256 processors", says("spec.resources.cpu", "at most 255"), set("resources.cpu", "256")),
			refuses("processors that are no quantity", says("spec.resources.cpu"), set("resources.cpu", "many")),
			refuses("memory whose unit was forgotten", says("spec.resources.memory", "counts bytes"), set("resources.memory", "512")),
			refuses("memory beyond the bound", says("spec.resources.memory", "1Ti"), set("resources.memory", "2Ti")),
			refuses("an unknown network", says("spec.network", `"Disabled", "Enabled"`), set("network", "true")),
			refuses("bus access without a network", says("spec.busAccess", "needs network: Enabled"), set("busAccess", "Enabled")),
			refuses("bus access with the network off", says("spec.busAccess", "needs network: Enabled"), set("busAccess", "Enabled"), set("network", "Disabled")),
			refuses("functions to call without bus access", says("spec.busAllow", "needs busAccess: Enabled"), set("busAllow", "[a]")),
			refuses("functions to call with the bus off", says("spec.busAllow"), set("busAllow", "[a]"), set("busAccess", "Disabled")),
			refuses("an empty pattern", says("spec.busAllow[0]"), busOn, set("busAllow", `[""]`)),
			refuses("a pattern twice", says("spec.busAllow[1]", "Duplicate"), busOn, set("busAllow", "[a, a]")),
			refuses("65 patterns", says("spec.busAllow", "64"), busOn, manyTexts("busAllow", 65, "x")),
			refuses("an empty command", says("spec.setup[0]"), set("setup", `[""]`)),
			refuses("a command of 4097 characters", says("spec.setup[0]", "4096"), manyTexts("setup", 1, strings.Repeat("x", 4097))),
			refuses("17 commands", says("spec.setup", "16"), manyTexts("setup", 17, "x")),
			refuses("20000 commands", says("spec.setup", "at most 16 items"), manyTexts("setup", 20_000, "command")),
			refuses("20000 patterns", says("spec.busAllow", "at most 64 items"), busOn, manyTexts("busAllow", 20_000, "pattern")),
			takes("an image of one character", setText("image", "x")),
			takes("an image of 128 characters", setText("image", long(128))),
			takes("a network that is off", set("network", "Disabled")),
			takes("a pattern of one character", busOn, set("busAllow", `["*"]`)),
			takes("64 patterns of 256 characters", busOn, manyTexts("busAllow", 64, long(256))),
			takes("patterns in other scripts", busOn, set("busAllow", `["shop::価格", "shop::é", "shop::e\u0301"]`)),
			takes("a command of one character", set("setup", `["["]`)),
			takes("a command in other scripts", set("setup", `["echo '🎉 \u200f שלום'"]`)),
			takes("the smallest resources", set("resources", "{cpu: 1m, memory: 1Mi}")),
			takes("memory with an exponent", set("resources.memory", "1e9")),
			refuses("an image of 129 characters", says("spec.image", "128"), setText("image", long(129))),
			refuses("an image that ends with a dot", says("spec.image", "should match"), set("image", "node.")),
			refuses("an image with a digest", says("spec.image", "should match"), set("image", "node@sha256:00")),
			refuses("an image with a zero-width space", says("spec.image", "should match"), set("image", `"no\u200bde"`)),
			refuses("memory below the bound", says("spec.resources.memory", "from 1Mi"), set("resources.memory", "1048575")),
			refuses("a fraction as a number", says("spec.resources.cpu"), set("resources.cpu", "1.5")),
			refuses("resources with spaces", says("spec.resources.memory"), set("resources.memory", `"1 Gi"`)),
			refuses("an empty quantity", says("spec.resources.cpu"), setText("resources.cpu", "")),
			refuses("an unknown bus access", says("spec.busAccess", `"Disabled", "Enabled"`), set("busAccess", "On")),
			refuses("a pattern of 257 characters", says("spec.busAllow[0]", "256"), busOn, manyTexts("busAllow", 1, long(257))),
			refuses("a command with a NUL character", says("spec.setup", "no NUL character"), set("setup", `["a\0b"]`)),
		}
	})
}
