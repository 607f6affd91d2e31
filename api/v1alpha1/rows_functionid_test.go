package v1alpha1_test

import "strings"

// id is a function id of exactly the given number of bytes.
func id(length int) string { return "shop::" + strings.Repeat("p", length-len("shop::")) }

func takesID(text, functionID string) row {
	return takes(text, setText("functionID", functionID))
}

func refusesID(text, functionID string, fragments []string) row {
	return refuses(text, append(fragments, "spec.functionID"), setText("functionID", functionID))
}

// functionIDRows are those of contracts/code-runner.md §6.
func functionIDRows() []row {
	return of(functionKind,
		takesID("the shortest", "a::b"),
		takesID("every character of a prefix", "-a_0.z::price"),
		takesID("a prefix that begins with an underscore", "_shop::price"),
		takesID("more separators in the name", "shop::eu::price"),
		takesID("a name that begins with a colon", "shop:::price"),
		takesID("spaces and other scripts in the name", "shop::prix élevé 価格"),
		takesID("a reserved word after the prefix", "shop::engine::price"),
		takesID("a prefix that only begins with a reserved word", "engine2::price"),
		takesID("a prefix of 64 characters", strings.Repeat("p", 64)+"::x"),
		takesID("256 bytes", id(256)),
		refusesID("no separator", "price", says("should match")),
		refusesID("one colon", "shop:price", says("should match")),
		refusesID("no prefix", "::price", says("should match")),
		refusesID("no name", "shop::", says("should match")),
		refusesID("upper case in the prefix", "Shop::price", says("should match")),
		refusesID("a space in the prefix", "my shop::price", says("should match")),
		refusesID("a colon in the prefix", "my:shop::price", says("should match")),
		refusesID("a prefix that begins with a dot", ".shop::price", says("should match")),
		refusesID("two dots in the prefix", "my..shop::price", says("no two dots in a row")),
		refusesID("a prefix of 65 characters", strings.Repeat("p", 65)+"::x", says("at most 64 characters")),
		refusesID("257 bytes", id(257), says("256")),
		refusesID("257 bytes in 132 characters", "shop::p"+strings.Repeat("é", 125), says("at most 256 bytes")),
		refusesID("the prefix of the engine", "engine::price", says("another one")),
		refusesID("a reserved prefix before more separators", "engine::a::b", says("another one")),
		refusesID("the prefix of the sandbox daemon", "sandbox::create", says("another one")),
		refusesID("the prefix of the operator", "sandbox-code-runner::run", says("another one")),
		refusesID("the prefix of the state store", "state::get", says("another one")),
		refusesID("the prefix of the streams", "stream::get", says("another one")),
		refusesID("the prefix of the queues", "iii::price", says("another one")),
		takesID("a name that is composed", "shop::caf\u00e9"),
		takesID("a name that is decomposed", "shop::cafe\u0301"),
		takesID("a name from right to left", "shop::\u202eמחיר"),
		takesID("a name of emoji and zero-width joiners", "shop::👩\u200d👩\u200d👧"),
		takesID("a name with a zero-width space", "shop::pri\u200bce"),
		refusesID("a name with a line break", "shop::a\nb", says("such as shop::price")),
		refusesID("a name that is a line break", "shop::\n", says("such as shop::price")),
		refusesID("an id of three characters", "a::", says("at least 4")),
		refusesID("an empty id", "", says("at least 4")),
		refusesID("full-width colons", "shop\uff1a\uff1aprice", says("such as shop::price")),
		refusesID("another script in the prefix", "магазин::price", says("such as shop::price")),
		refusesID("a zero-width space in the prefix", "sh\u200bop::price", says("such as shop::price")),
		refusesID("a byte order mark before the prefix", "\ufeffshop::price", says("such as shop::price")),
		refusesID("a space before the prefix", " shop::price", says("such as shop::price")),
		refusesID("a NUL character in the prefix", "shop\x00::price", says("such as shop::price")),
	)
}
