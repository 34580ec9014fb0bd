/* oneapi/ccl.hpp: for programs written for oneCCL: its header's name, its namespace, and the
 * version of its interface that <heddle/ccl.hpp> follows. In a folder of its own, so that it is in
 * nobody's way: `pkg-config --cflags heddle-oneccl` has the compiler look there. docs/ccl.md shows
 * how such a program runs with threads as ranks.
 */
#ifndef HEDDLE_ONEAPI_CCL_HPP_
#define HEDDLE_ONEAPI_CCL_HPP_

#include <heddle/ccl.hpp>

#define ONECCL_SPEC_VERSION "1.0"

#define CCL_MAJOR_VERSION      2021
#define CCL_MINOR_VERSION      15
#define CCL_UPDATE_VERSION     0
#define CCL_PRODUCT_STATUS     "Heddle"
#define CCL_PRODUCT_BUILD_DATE ""
#define CCL_PRODUCT_FULL       "Heddle " HEDDLE_VERSION_STRING " for programs of oneCCL"

#if __cplusplus >= 201703L /* else <heddle/ccl.hpp> has said so */
namespace ccl = heddle::ccl;
#endif

#endif
