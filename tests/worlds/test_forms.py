from holdfast.worlds.forms import Form, tidy


def test_a_form_reads_what_it_writes():
    form = Form("enter : {name} wants {number} {stem} {kind}")
    text = form.fill("oria", "12", "vexbane", "plimmet")
    assert text == "enter : oria wants 12 vexbane plimmet"
    assert form.match(text) == ("oria", "12", "vexbane", "plimmet")


def test_a_list_slot_takes_all_that_is_left():
    form = Form("copy : {list}")
    assert form.fill("sun", "leaf", "boat") == "copy : sun leaf boat"
    assert form.match("copy : sun leaf boat") == ("sun", "leaf", "boat")
    assert form.match("copy : ") is None
    assert form.match("copy : sun , leaf") is None


def test_words_outside_a_slot_do_not_match():
    form = Form("it is {colour} .")
    assert form.match("it is blue .") == ("blue",)
    assert form.match("it is heavy .") is None
    assert form.match("it is blue") is None
    assert form.match("it is blue . yes") is None


def test_found_in_needs_whole_words():
    form = Form("in the {place} .")
    assert form.found_in("look in the mill . bye")
    assert not form.found_in("begin the mill .")
    assert not form.found_in("in the mill .. bye")


def test_tidy_sets_punctuation_apart():
    assert tidy("  How do I make a Welmi plimmet?\n") == "how do i make a welmi plimmet ?"
