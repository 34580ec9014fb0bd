// layout_cxx.cpp: what test_layout.c says of C holds for C++ as well, and the inline calls compile.
#include <cstddef>
#include <type_traits>
#include <ucc/api/ucc.h>

#if defined(__x86_64__)

// offsetof into a named member's member is conditionally supported; all our compilers do.
#define TYPE(type, size, alignment)                                                                \
    static_assert(sizeof(type) == (size) && alignof(type) == (alignment), "layout of " #type);
#define FIELD(tag, field, offset, size)                                                            \
    static_assert(offsetof(struct tag, field) == (offset) &&                                       \
                      sizeof(((struct tag *)nullptr)->field) == (size),                            \
                  "place of " #tag "::" #field);
#define VALUE(expression, value) static_assert((expression) == (value), "value of " #expression);
#define SIGNATURE(function, ...)                                                                   \
    static_assert(std::is_same<decltype(&function), __VA_ARGS__>::value, "type of " #function);
#include "layout_facts.h"

#endif

int main() {
    ucc_coll_req_t request = {UCC_OPERATION_INITIALIZED};
    if (ucc_collective_test(&request) != UCC_OPERATION_INITIALIZED) {
        return 1;
    }
    // The names are C's: a reference with a C++ name would not link.
    return ucc_status_string(UCC_OK) == nullptr;
}
