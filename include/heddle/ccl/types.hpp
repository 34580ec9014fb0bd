/* ccl/types.hpp: names, datatypes, reductions, errors and attributes of <heddle/ccl.hpp>.
 *
 * An attribute object says how one call is done. A datatype and a reduction are looked up here,
 * once, and become what the C library calls them.
 */
#ifndef HEDDLE_CCL_TYPES_HPP_
#define HEDDLE_CCL_TYPES_HPP_

#if __cplusplus < 201703L
#error "<heddle/ccl.hpp> needs C++17: compile with -std=c++17 or later"
#else

#include <heddle/heddle.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace heddle {
namespace ccl {

template <class T> using vector_class = std::vector<T>;
template <class T> using unique_ptr_class = std::unique_ptr<T>;
template <class T> using shared_ptr_class = std::shared_ptr<T>;
template <class K, class V> using pair_class = std::pair<K, V>;
template <class K, class V> using map_class = std::map<K, V>;
template <class T, std::size_t n> using array_class = std::array<T, n>;
using string_class = std::string;

/* ------------------------------------------------------------------------------------------------
 * Errors
 * ---------------------------------------------------------------------------------------------- */

/** What every call throws that fails; status() is the C library's, and what() ends with the line
 *  that the calling thread has logged in that call, if any: where another thread has found out why,
 *  the log has it. Each call forgets what heddle_last_error() has before. */
class exception : public std::runtime_error {
  public:
    exception(const std::string &what, ucc_status_t status)
        : std::runtime_error(what), status_(status) {
    }
    ucc_status_t status() const noexcept {
        return status_;
    }

  private:
    ucc_status_t status_;
};

/** UCC_ERR_INVALID_PARAM: an argument, or the state of an object, forbids the call. */
class invalid_argument : public exception {
  public:
    explicit invalid_argument(const std::string &what) : exception(what, UCC_ERR_INVALID_PARAM) {
    }
};

/** UCC_ERR_NOT_SUPPORTED. */
class unsupported : public exception {
  public:
    explicit unsupported(const std::string &what) : exception(what, UCC_ERR_NOT_SUPPORTED) {
    }
};

/** UCC_ERR_NO_MEMORY. What operator new throws remains std::bad_alloc. */
class host_bad_alloc : public exception {
  public:
    explicit host_bad_alloc(const std::string &what) : exception(what, UCC_ERR_NO_MEMORY) {
    }
};

namespace detail {

/** At the head of each call: what the thread has logged before is not why this one fails. The
 *  thread may have logged nothing then, since another one has found out why. */
inline void begin_call() {
    heddle_forget_error();
}

/** why: the line that says it; "": none is known. */
[[noreturn]] inline void fail(ucc_status_t status, const char *call, const char *why) {
    std::string what = std::string(call) + ": " + ucc_status_string(status);
    if (*why) {
        what += std::string(": ") + why;
    }
    begin_call();
    switch (status) {
    case UCC_ERR_INVALID_PARAM:
        throw invalid_argument(what);
    case UCC_ERR_NOT_SUPPORTED:
        throw unsupported(what);
    case UCC_ERR_NO_MEMORY:
        throw host_bad_alloc(what);
    default:
        throw exception(what, status);
    }
}

[[noreturn]] inline void fail(ucc_status_t status, const char *call) {
    fail(status, call, heddle_last_error());
}

[[noreturn]] inline void refuse(const char *call, const char *why) {
    throw invalid_argument(std::string(call) + ": " + why);
}

inline void check(ucc_status_t status, const char *call) {
    if (status < 0) {
        fail(status, call);
    }
}

inline void require(bool condition, const char *call, const char *why) {
    if (!condition) {
        refuse(call, why);
    }
}

/** The same about a number: "why: value", and "of so many" unless that is 0. */
inline void require(bool condition, const char *call, const char *why, std::size_t value,
                    std::size_t of = 0) {
    if (!condition) {
        std::string text = std::string(why) + ": " + std::to_string(value);
        refuse(call, (of ? text + " of " + std::to_string(of) : text).c_str());
    }
}

} // namespace detail

/* ------------------------------------------------------------------------------------------------
 * Datatypes
 * ---------------------------------------------------------------------------------------------- */

/** Types of elements. Larger values are what register_datatype() has given out. */
enum class datatype : int {
    int8 = 0,
    uint8,
    int16,
    uint16,
    int32,
    uint32,
    int64,
    uint64,
    float16,
    float32,
    float64,
    bfloat16,
    last_predefined = bfloat16
};

/** How elements are combined. custom: by the call's reduction_fn. */
enum class reduction : int { sum = 0, prod, min, max, custom, avg, last_value };

/** What a custom reduction learns of its call. A piece may be any part of the data, so offset is 0.
 */
struct fn_context {
    const char *match_id;
    std::size_t offset;
};

/** inout[i] = inout[i] op in[i] for i below in_count, where inout has the lower ranks' part; op
 *  must be associative. *out_count is in_count, and must stay that. Called by any thread that
 *  waits; an exception fails the call at all ranks. */
using reduction_fn = void (*)(const void *in, std::size_t in_count, void *inout,
                              std::size_t *out_count, datatype dtype, const fn_context *context);

namespace detail {

/** The datatype of a C++ type, where there is one. */
template <class T> constexpr int datatype_of() {
    using plain = std::remove_cv_t<T>;
    if constexpr (std::is_same_v<plain, float>) {
        return static_cast<int>(datatype::float32);
    } else if constexpr (std::is_same_v<plain, double>) {
        return static_cast<int>(datatype::float64);
    } else if constexpr (std::is_integral_v<plain> && !std::is_same_v<plain, bool>) {
        constexpr int sign = std::is_unsigned_v<plain> ? 1 : 0;
        return sizeof(plain) == 1   ? 0 + sign
               : sizeof(plain) == 2 ? 2 + sign
               : sizeof(plain) == 4 ? 4 + sign
               : sizeof(plain) == 8 ? 6 + sign
                                    : -1;
    } else {
        return -1;
    }
}

/** Templates that infer the datatype take part in overloading for these types only. */
template <class T, class Result = int>
using for_element = std::enable_if_t<(datatype_of<T>() >= 0), Result>;

template <class T> constexpr datatype inferred = static_cast<datatype>(datatype_of<T>());

/** One element as the C library moves it: a type of its own, or so many bytes. */
struct element {
    ucc_datatype_t type;
    std::size_t size;  /**< bytes */
    std::size_t scale; /**< of type, per element */
};

constexpr std::size_t most_ranks = 16777216; // of a communicator
/** So that an element for each rank has a size that can be told; counts are checked with each call.
 */
constexpr std::size_t largest_element = SIZE_MAX / most_ranks;

constexpr int predefined = static_cast<int>(datatype::last_predefined) + 1;

inline const element &predefined_element(datatype dtype) {
    static const element table[predefined] = {
        {UCC_DT_INT8, 1, 1},    {UCC_DT_UINT8, 1, 1},   {UCC_DT_INT16, 2, 1},
        {UCC_DT_UINT16, 2, 1},  {UCC_DT_INT32, 4, 1},   {UCC_DT_UINT32, 4, 1},
        {UCC_DT_INT64, 8, 1},   {UCC_DT_UINT64, 8, 1},  {UCC_DT_FLOAT16, 2, 1},
        {UCC_DT_FLOAT32, 4, 1}, {UCC_DT_FLOAT64, 8, 1}, {UCC_DT_BFLOAT16, 2, 1}};
    return table[static_cast<int>(dtype)];
}

/** A user's reduction of a datatype, which the C library knows as a generic datatype. Stays where
 *  it is: the C library hands its address to the callback. */
struct custom_reduction {
    datatype dtype;
    reduction_fn fn;
    std::size_t size;
    ucc_datatype_t type;
};

/** dst = src1 op v(0) op v(1) ...: the callback of custom reductions. */
inline ucc_status_t reduce_by_user(const ucc_reduce_cb_params_t *params) {
    const auto *custom = static_cast<const custom_reduction *>(params->cb_ctx);
    const fn_context context = {"", 0};
    if (params->dst != params->src1) {
        std::memcpy(params->dst, params->src1, params->count * custom->size);
    }
    try {
        for (std::size_t i = 0; i < params->n_vectors; i++) {
            std::size_t count = params->count;
            custom->fn(static_cast<const char *>(params->src2) + i * params->stride, count,
                       params->dst, &count, custom->dtype, &context);
        }
    } catch (...) { // must not pass through the C library's frames
        return UCC_ERR_NO_MESSAGE;
    }
    return UCC_OK;
}

/** All datatypes of the user's, and all custom reductions that have been called; of the process,
 * until its end. */
class registry {
  public:
    static registry &instance() {
        static registry all;
        return all;
    }
    registry(const registry &) = delete;
    registry &operator=(const registry &) = delete;
    ~registry() {
        for (auto &custom : reductions_) {
            ucc_dt_destroy(custom->type);
        }
    }

    datatype add(std::size_t size) {
        std::unique_lock<std::shared_mutex> lock(mutex_);
        if (!free_.empty()) {
            std::size_t i = free_.back();
            free_.pop_back();
            sizes_[i] = size;
            return static_cast<datatype>(predefined + static_cast<int>(i));
        }
        free_.reserve(sizes_.size() + 1); // so that remove() needs no memory
        sizes_.push_back(size);
        return static_cast<datatype>(predefined + static_cast<int>(sizes_.size()) - 1);
    }

    void remove(datatype dtype) {
        std::unique_lock<std::shared_mutex> lock(mutex_);
        std::size_t i = index(dtype);
        require(i < sizes_.size() && sizes_[i] != 0, "deregister_datatype", "no such datatype");
        sizes_[i] = 0;
        free_.push_back(i);
        for (std::size_t k = 0; k < reductions_.size();) {
            if (reductions_[k]->dtype == dtype) {
                ucc_dt_destroy(reductions_[k]->type);
                std::swap(reductions_[k], reductions_.back());
                reductions_.pop_back();
            } else {
                k++;
            }
        }
    }

    /** 0: there is none. */
    std::size_t size(datatype dtype) {
        std::shared_lock<std::shared_mutex> lock(mutex_);
        std::size_t i = index(dtype);
        return i < sizes_.size() ? sizes_[i] : 0;
    }

    ucc_datatype_t reduction_of(datatype dtype, std::size_t size, reduction_fn fn) {
        {
            std::shared_lock<std::shared_mutex> lock(mutex_);
            if (const custom_reduction *custom = find(dtype, fn)) {
                return custom->type;
            }
        }
        std::unique_lock<std::shared_mutex> lock(mutex_);
        if (const custom_reduction *custom = find(dtype, fn)) {
            return custom->type;
        }
        auto custom = std::make_unique<custom_reduction>(custom_reduction{dtype, fn, size, 0});
        ucc_generic_dt_ops_t ops = {};
        ops.mask = UCC_GENERIC_DT_OPS_FIELD_FLAGS;
        ops.flags = UCC_GENERIC_DT_OPS_FLAG_CONTIG | UCC_GENERIC_DT_OPS_FLAG_REDUCE;
        ops.contig_size = size;
        ops.reduce.cb = reduce_by_user;
        ops.reduce.cb_ctx = custom.get();
        reductions_.reserve(reductions_.size() + 1);
        check(ucc_dt_create_generic(&ops, nullptr, &custom->type), "custom reduction");
        reductions_.push_back(std::move(custom));
        return reductions_.back()->type;
    }

  private:
    registry() = default;
    static std::size_t index(datatype dtype) {               // of a predefined one: huge
        return static_cast<std::size_t>(dtype) - predefined; // unsigned, so that none overflows
    }
    const custom_reduction *find(datatype dtype, reduction_fn fn) const {
        for (const auto &custom : reductions_) {
            if (custom->dtype == dtype && custom->fn == fn) {
                return custom.get();
            }
        }
        return nullptr;
    }

    std::shared_mutex mutex_;
    std::vector<std::size_t> sizes_; // 0: there is none; its number is among the free ones
    std::vector<std::size_t> free_;
    std::vector<std::unique_ptr<custom_reduction>> reductions_;
};

inline element element_of(datatype dtype, const char *call) {
    if (static_cast<unsigned>(dtype) < static_cast<unsigned>(predefined)) {
        return predefined_element(dtype);
    }
    std::size_t size = registry::instance().size(dtype);
    require(size != 0, call, "no such datatype");
    return {UCC_DT_UINT8, size, size};
}

} // namespace detail

/* ------------------------------------------------------------------------------------------------
 * Attributes
 * ---------------------------------------------------------------------------------------------- */

struct library_version {
    unsigned major, minor, update;
    const char *product_status, *build_date, *full;
};

inline library_version get_library_version() {
    unsigned version = heddle_version();
    return {version / 10000,        version / 100 % 100, version % 100, "Heddle", "",
            heddle_version_string()};
}

/** What every call has.
 *  - match_id: calls of equal match_id match, in whatever order the ranks make their calls; those
 *    of one match_id, and those without, in their order. Text of any length; its 63-bit hash is
 *    what is compared.
 *  - synchronous: the call returns when it is complete.
 *  - priority, to_cache: kept, and without effect. */
enum class operation_attr_id : int { version, priority, to_cache, synchronous, match_id };

enum class allgatherv_attr_id : int { op_id_offset = 5 };
enum class allgather_attr_id : int { op_id_offset = 5 };
enum class allreduce_attr_id : int { op_id_offset = 5, reduction_fn = op_id_offset };
enum class alltoall_attr_id : int { op_id_offset = 5 };
enum class alltoallv_attr_id : int { op_id_offset = 5 };
enum class barrier_attr_id : int { op_id_offset = 5 };
enum class broadcast_attr_id : int { op_id_offset = 5 };
enum class reduce_attr_id : int { op_id_offset = 5, reduction_fn = op_id_offset };
enum class reduce_scatter_attr_id : int { op_id_offset = 5, reduction_fn = op_id_offset };
enum class pt2pt_attr_id : int { op_id_offset = 5 };
enum class datatype_attr_id : int { version, size };

namespace detail {

/** FNV-1a, and a last mixing so that all bits count; tags whose highest bit is set are not the
 * program's. */
inline std::uint64_t tag_of(const std::string &match_id) {
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (char c : match_id) {
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    }
    hash = (hash ^ (hash >> 32)) * 0xd6e8feb86659fd93u;
    return (hash ^ (hash >> 32)) & (~std::uint64_t{0} >> 1);
}

struct operation {
    std::string match_id;
    std::uint64_t tag = 0; /**< of match_id */
    std::size_t priority = 0;
    bool to_cache = false;
    bool synchronous = false;
    reduction_fn fn = nullptr;
};

} // namespace detail

/** The attributes of one kind of call; OwnId names those that only it has. */
template <class OwnId> class basic_attr {
  public:
    template <auto id, class Value> void set(Value &&value) {
        if constexpr (std::is_same_v<decltype(id), OwnId>) {
            static_assert(static_cast<int>(id) == 5 && has_fn, "no such attribute");
            operation_.fn = value;
        } else {
            static_assert(std::is_same_v<decltype(id), operation_attr_id>,
                          "another call's attribute");
            static_assert(id != operation_attr_id::version, "the version is only read");
            if constexpr (id == operation_attr_id::priority) {
                operation_.priority = static_cast<std::size_t>(value);
            } else if constexpr (id == operation_attr_id::to_cache) {
                operation_.to_cache = value;
            } else if constexpr (id == operation_attr_id::synchronous) {
                operation_.synchronous = value;
            } else {
                operation_.match_id = std::forward<Value>(value);
                operation_.tag = detail::tag_of(operation_.match_id);
            }
        }
    }

    template <auto id> auto get() const {
        if constexpr (std::is_same_v<decltype(id), OwnId>) {
            static_assert(static_cast<int>(id) == 5 && has_fn, "no such attribute");
            return operation_.fn;
        } else {
            static_assert(std::is_same_v<decltype(id), operation_attr_id>,
                          "another call's attribute");
            if constexpr (id == operation_attr_id::version) {
                return get_library_version();
            } else if constexpr (id == operation_attr_id::priority) {
                return operation_.priority;
            } else if constexpr (id == operation_attr_id::to_cache) {
                return operation_.to_cache;
            } else if constexpr (id == operation_attr_id::synchronous) {
                return operation_.synchronous;
            } else {
                return operation_.match_id;
            }
        }
    }

    const detail::operation &operation() const noexcept {
        return operation_;
    }

  private:
    static constexpr bool has_fn = std::is_same_v<OwnId, allreduce_attr_id> ||
                                   std::is_same_v<OwnId, reduce_attr_id> ||
                                   std::is_same_v<OwnId, reduce_scatter_attr_id>;
    detail::operation operation_;
};

using allgather_attr = basic_attr<allgather_attr_id>;
using allgatherv_attr = basic_attr<allgatherv_attr_id>;
using allreduce_attr = basic_attr<allreduce_attr_id>;
using alltoall_attr = basic_attr<alltoall_attr_id>;
using alltoallv_attr = basic_attr<alltoallv_attr_id>;
using barrier_attr = basic_attr<barrier_attr_id>;
using broadcast_attr = basic_attr<broadcast_attr_id>;
using reduce_attr = basic_attr<reduce_attr_id>;
using reduce_scatter_attr = basic_attr<reduce_scatter_attr_id>;
using pt2pt_attr = basic_attr<pt2pt_attr_id>;

using allgather_attr_t = allgather_attr;
using allgatherv_attr_t = allgatherv_attr;
using allreduce_attr_t = allreduce_attr;
using alltoall_attr_t = alltoall_attr;
using alltoallv_attr_t = alltoallv_attr;
using barrier_attr_t = barrier_attr;
using bcast_attr_t = broadcast_attr;
using reduce_attr_t = reduce_attr;
using reduce_scatter_attr_t = reduce_scatter_attr;

/** The one attribute of a datatype: its size in bytes. */
class datatype_attr {
  public:
    template <auto id, class Value> void set(Value value) {
        static_assert(id == datatype_attr_id::size, "no such attribute");
        size_ = static_cast<std::size_t>(value);
    }
    template <auto id> std::size_t get() const {
        static_assert(id == datatype_attr_id::size, "no such attribute");
        return size_;
    }

  private:
    std::size_t size_ = 1;
};

namespace detail {

template <auto id, class Value> struct named_value { Value value; };

template <class Attr, auto... ids, class... Values>
Attr attr_with(named_value<ids, Values>... values) {
    Attr attr;
    (attr.template set<ids>(std::move(values.value)), ...);
    return attr;
}

} // namespace detail

/** create_operation_attr<allreduce_attr>(attr_val<operation_attr_id::synchronous>(true), ...) */
template <auto id, class Value>
detail::named_value<id, std::decay_t<Value>> attr_val(Value &&value) {
    return {std::forward<Value>(value)};
}

template <class Attr, class... Values> Attr create_operation_attr(Values &&...values) {
    return detail::attr_with<Attr>(std::forward<Values>(values)...);
}

template <class... Values> datatype_attr create_datatype_attr(Values &&...values) {
    return detail::attr_with<datatype_attr>(std::forward<Values>(values)...);
}

/** A datatype of that many bytes, which only custom reductions reduce. Each rank registers its own.
 */
inline datatype register_datatype(const datatype_attr &attr) {
    std::size_t size = attr.get<datatype_attr_id::size>();
    detail::require(size > 0, "register_datatype", "a size of 0");
    detail::require(size <= detail::largest_element, "register_datatype",
                    "a size beyond all memory");
    return detail::registry::instance().add(size);
}

/** No call that uses it may be outstanding. */
inline void deregister_datatype(datatype dtype) {
    detail::registry::instance().remove(dtype);
}

inline std::size_t get_datatype_size(datatype dtype) {
    return detail::element_of(dtype, "get_datatype_size").size;
}

} // namespace ccl
} // namespace heddle

#endif

#endif
