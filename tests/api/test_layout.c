/* test_layout.c: our headers have the binary interface of UCC 1.8, so that a program compiled with
 * either library's headers runs with the other's library. A drift does not compile.
 */
#include <criterion/criterion.h>
#include <heddle/heddle.h>
#include <stdio.h>
#include <ucc/api/ucc.h>

#if defined(__x86_64__)

#define TYPE(type, size, alignment)                                                                \
    _Static_assert(sizeof(type) == (size) && _Alignof(type) == (alignment), "layout of " #type);
#define FIELD(tag, field, offset, size)                                                            \
    _Static_assert(offsetof(struct tag, field) == (offset) &&                                      \
                       sizeof(((struct tag *)0)->field) == (size),                                 \
                   "place of " #tag "::" #field);
#define VALUE(expression, value) _Static_assert((expression) == (value), "value of " #expression);
#define SIGNATURE(function, ...)                                                                   \
    _Static_assert(_Generic(&function, __VA_ARGS__ : 1, default : 0), "type of " #function);
#include "layout_facts.h"
#undef TYPE
#undef FIELD
#undef VALUE
#undef SIGNATURE

/* A fact that gets lost in an edit is noticed here. */
Test(layout, facts_are_complete) {
    int types = 0, fields = 0, values = 0, signatures = 0;
#define TYPE(...)      types++;
#define FIELD(...)     fields++;
#define VALUE(...)     values++;
#define SIGNATURE(...) signatures++;
#include "layout_facts.h"
    cr_expect(types == 69, "%d types", types);
    cr_expect(fields == 137, "%d fields", fields);
    cr_expect(values == 189, "%d values", values);
    cr_expect(signatures == 40, "%d signatures", signatures);
}

#endif

Test(layout, version_is_the_one_we_follow) {
    unsigned major = 0, minor = 0, release = 99;
    ucc_get_version(&major, &minor, &release);
    cr_expect(major == UCC_API_MAJOR && minor == UCC_API_MINOR && release == 0);
    cr_expect_str_eq(ucc_get_version_string(), UCC_VERSION_STRING);
}

Test(layout, headers_and_library_tell_the_same_version_of_heddle) {
    char text[32];
    snprintf(text, sizeof(text), "%d.%d.%d", HEDDLE_VERSION_MAJOR, HEDDLE_VERSION_MINOR,
             HEDDLE_VERSION_PATCH);
    cr_expect_str_eq(HEDDLE_VERSION_STRING, text);
    cr_expect_str_eq(heddle_version_string(), text);
    cr_expect_eq(heddle_version(), HEDDLE_VERSION);
    cr_expect(HEDDLE_VERSION >= HEDDLE_VERSION_NUMBER(0, 1, 0));
}
