// cases.hpp: every collective on every type of elements, for any kind of communicator.
//
// A side says where buffers are, and what a call's last arguments are: of the host, or of a device's stream. A batch is one
// call of each collective; each rank starts it in an order of its own, matched by match_id, or in that of all. What comes out
// is compared with numbers that follow from ranks and positions.
#ifndef TESTS_CCL_CASES_HPP_
#define TESTS_CCL_CASES_HPP_

#include "support.hpp"

// Types that no C++ type stands for.
struct float16 {
    std::uint16_t bits;
};
struct bfloat16 {
    std::uint16_t bits;
};

// All numbers of the tests are whole, and from 0 to 255.
template <class T> T number(unsigned value) {
    if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
        unsigned fraction = std::is_same_v<T, float16> ? 10 : 7, bias = fraction == 10 ? 15 : 127;
        if (value == 0) {
            return {0};
        }
        unsigned top = 31 - static_cast<unsigned>(__builtin_clz(value));
        unsigned rest = (value << (fraction > top ? fraction - top : 0)) & ((1U << fraction) - 1);
        return {static_cast<std::uint16_t>((top + bias) << fraction | rest)};
    } else {
        return static_cast<T>(value);
    }
}

template <class T> bool is_number(T element, unsigned value) {
    T wanted = number<T>(value);
    return std::memcmp(&element, &wanted, sizeof(T)) == 0;
}

template <class T> constexpr ccl::datatype type_of() {
    if constexpr (std::is_same_v<T, float16>) {
        return ccl::datatype::float16;
    } else if constexpr (std::is_same_v<T, bfloat16>) {
        return ccl::datatype::bfloat16;
    } else {
        return ccl::detail::inferred<T>;
    }
}

template <class T> constexpr bool has_type = ccl::detail::datatype_of<T>() >= 0;

// A call of a batch: how it is started, and what must have come.
struct planned {
    std::string name;
    std::function<ccl::request_t(const std::string &match_id, bool synchronous)> start;
    std::function<void()> check;
};

// Buffers of one rank, and its calls. Typed: by the templates, else by the void * overloads.
template <class Side, class T> class batch {
  public:
    batch(Side &side, std::size_t count, bool typed)
        : side_(side), n_(static_cast<std::size_t>(side.comm.size())),
          rank_(static_cast<std::size_t>(side.comm.rank())), count_(count),
          typed_(typed && has_type<T>) {
        plan_reductions();
        plan_moves();
        plan_vectors();
    }

    // In the order of all, or with match_ids in that of the rank.
    void run(bool in_order, const char *round) {
        std::vector<std::pair<ccl::request_t, std::size_t>> started;
        for (std::size_t i = 0; i < calls_.size(); i++) {
            std::size_t k = in_order ? i : (i * 7 + rank_ * 5) % calls_.size();
            started.emplace_back(calls_[k].start(in_order ? "" : calls_[k].name + round, false), k);
        }
        for (auto &one : started) {
            one.first->wait();
            calls_[one.second].check();
        }
    }

    void run_synchronous() {
        for (auto &call : calls_) {
            auto request = call.start("", true);
            EXPECT(request->test());
            request->wait();
            call.check();
        }
    }

    std::size_t size() const {
        return calls_.size();
    }

  private:
    using attr_setter = std::function<void()>;

    template <class Attr> static Attr attr(const std::string &match_id, bool synchronous) {
        auto made = ccl::create_operation_attr<Attr>(
            ccl::attr_val<ccl::operation_attr_id::synchronous>(synchronous),
            ccl::attr_val<ccl::operation_attr_id::priority>(1),
            ccl::attr_val<ccl::operation_attr_id::to_cache>(true));
        if (!match_id.empty()) {
            made.template set<ccl::operation_attr_id::match_id>(match_id);
        }
        return made;
    }

    // Sources: rank r has this at position i.
    static unsigned given(std::size_t r, std::size_t i) {
        return static_cast<unsigned>((r + i) % 5 + 1);
    }
    static unsigned factor(std::size_t r, std::size_t i) {
        return (r + i) % 3 == 0 ? 2 : 1;
    }
    unsigned reduced(ccl::reduction op, std::size_t i) const {
        unsigned result = op == ccl::reduction::prod ? 1 : op == ccl::reduction::min ? 255 : 0;
        for (std::size_t r = 0; r < n_; r++) {
            unsigned value = op == ccl::reduction::prod ? factor(r, i) : given(r, i);
            result = op == ccl::reduction::sum    ? result + value
                     : op == ccl::reduction::prod ? result * value
                     : op == ccl::reduction::min  ? std::min(result, value)
                                                  : std::max(result, value);
        }
        return result;
    }
    T *source(std::size_t count, const std::function<unsigned(std::size_t)> &value) {
        std::vector<T> content(count);
        for (std::size_t i = 0; i < count; i++) {
            content[i] = number<T>(value(i));
        }
        T *buffer = static_cast<T *>(side_.take(count * sizeof(T)));
        side_.put(buffer, content.data(), count * sizeof(T));
        return buffer;
    }
    T *result(std::size_t count) {
        return source(count, [](std::size_t) { return 99U; });
    }
    // What has come is looked at, and goes away, so that the next run begins anew.
    std::function<void()> compare(std::string name, T *buffer, std::size_t count,
                                  std::function<unsigned(std::size_t)> value) {
        return [this, name, buffer, count, value] {
            std::vector<T> content(count);
            side_.get(content.data(), buffer, count * sizeof(T));
            for (std::size_t i = 0; i < count; i++) {
                if (!is_number(content[i], value(i))) {
                    expect_at(false, name.c_str(), "position", static_cast<int>(i));
                    break;
                }
                content[i] = number<T>(99);
            }
            side_.put(buffer, content.data(), count * sizeof(T));
        };
    }
    template <class Attr, class Typed, class Plain>
    void add(const std::string &name, std::function<void()> check, Typed typed, Plain plain) {
        auto start = [this, typed, plain](const std::string &match_id, bool synchronous) {
            (void)typed; // of types that no C++ type stands for
            Attr how = attr<Attr>(match_id, synchronous);
            if constexpr (has_type<T>) {
                if (typed_) {
                    return side_.call(how, typed);
                }
            }
            return side_.call(how, plain);
        };
        calls_.push_back({name, start, std::move(check)});
    }

    void plan_reductions() {
        for (auto op : {ccl::reduction::sum, ccl::reduction::prod, ccl::reduction::min,
                        ccl::reduction::max}) {
            plan_allreduce(op);
            plan_reduce(op, n_ - 1);
            plan_reduce_scatter(op);
        }
    }
    T *operands(ccl::reduction op, std::size_t count) {
        return source(count, [=](std::size_t i) {
            return op == ccl::reduction::prod ? factor(rank_, i) : given(rank_, i);
        });
    }
    static std::string named(const char *call, ccl::reduction op) {
        return call + std::to_string(static_cast<int>(op));
    }
    void plan_allreduce(ccl::reduction op) {
        T *from = operands(op, count_), *to = result(count_);
        auto check =
            compare("allreduce", to, count_, [=](std::size_t i) { return reduced(op, i); });
        add<ccl::allreduce_attr_t>(
            named("allreduce", op), check,
            [=](auto... last) { return side_.comm.allreduce(from, to, count_, op, last...); },
            [=](auto... last) {
                return side_.comm.allreduce(static_cast<const void *>(from),
                                            static_cast<void *>(to), count_, op, type_of<T>(),
                                            last...);
            });
    }
    void plan_reduce(ccl::reduction op, std::size_t root) {
        T *from = operands(op, count_), *to = rank_ == root ? result(count_) : nullptr;
        auto check =
            compare("reduce", to, to ? count_ : 0, [=](std::size_t i) { return reduced(op, i); });
        add<ccl::reduce_attr_t>(
            named("reduce", op), check,
            [=](auto... last) { return side_.comm.reduce(from, to, count_, op, root, last...); },
            [=](auto... last) {
                return side_.comm.reduce(static_cast<const void *>(from), static_cast<void *>(to),
                                         count_, type_of<T>(), op, root, last...);
            });
    }
    void plan_reduce_scatter(ccl::reduction op) {
        T *from = operands(op, count_ * n_), *to = result(count_);
        auto check = compare("reduce_scatter", to, count_,
                             [=](std::size_t i) { return reduced(op, rank_ * count_ + i); });
        add<ccl::reduce_scatter_attr_t>(
            named("reduce_scatter", op), check,
            [=](auto... last) { return side_.comm.reduce_scatter(from, to, count_, op, last...); },
            [=](auto... last) {
                return side_.comm.reduce_scatter(static_cast<const void *>(from),
                                                 static_cast<void *>(to), count_, type_of<T>(), op,
                                                 last...);
            });
    }

    void plan_moves() {
        T *all = source(count_ * n_, [=](std::size_t i) { return given(rank_, i); });
        T *swapped = result(count_ * n_);
        add<ccl::alltoall_attr_t>(
            "alltoall",
            compare("alltoall", swapped, count_ * n_,
                    [=](std::size_t i) { return given(i / count_, rank_ * count_ + i % count_); }),
            [=](auto... last) { return side_.comm.alltoall(all, swapped, count_, last...); },
            [=](auto... last) {
                return side_.comm.alltoall(static_cast<const void *>(all),
                                           static_cast<void *>(swapped), count_, type_of<T>(),
                                           last...);
            });
        std::size_t root = n_ / 2;
        T *cast =
            source(count_, [=](std::size_t i) { return rank_ == root ? given(root, i) : 99; });
        auto came = compare("bcast", cast, count_, [=](std::size_t i) { return given(root, i); });
        add<ccl::bcast_attr_t>(
            "bcast",
            [=] {
                came();
                refill(cast, root);
            },
            [=](auto... last) { return side_.comm.bcast(cast, count_, root, last...); },
            [=](auto... last) {
                return side_.comm.bcast(static_cast<void *>(cast), count_, type_of<T>(), root,
                                        last...);
            });
        auto barrier = [=](auto... last) { return side_.comm.barrier(last...); };
        add<ccl::barrier_attr_t>(
            "barrier", [] {}, barrier, barrier);
    }
    void refill(T *cast, std::size_t root) {
        if (rank_ == root) {
            std::vector<T> content(count_);
            for (std::size_t i = 0; i < count_; i++) {
                content[i] = number<T>(given(root, i));
            }
            side_.put(cast, content.data(), count_ * sizeof(T));
        }
    }

    // From rank r to rank t: so many.
    std::size_t amount(std::size_t r, std::size_t t) const {
        return (r + 2 * t) % 3 * count_ / 2;
    }
    void plan_vectors() {
        std::vector<std::size_t> from_each(n_), to_each(n_), of_each(n_);
        std::vector<unsigned> gathered, exchanged;
        std::size_t sent = 0;
        for (std::size_t r = 0; r < n_; r++) {
            of_each[r] = amount(r, 1);
            from_each[r] = amount(r, rank_);
            to_each[r] = amount(rank_, r);
            sent += to_each[r];
            for (std::size_t i = 0; i < of_each[r]; i++) {
                gathered.push_back(given(r, i));
            }
            std::size_t before = 0;
            for (std::size_t t = 0; t < rank_; t++) {
                before += amount(r, t);
            }
            for (std::size_t i = 0; i < from_each[r]; i++) {
                exchanged.push_back(given(r, before + i));
            }
        }
        plan_allgatherv(of_each, gathered);
        T *from = source(sent, [=](std::size_t i) { return given(rank_, i); });
        T *to = result(exchanged.size());
        add<ccl::alltoallv_attr_t>(
            "alltoallv",
            compare("alltoallv", to, exchanged.size(), [=](std::size_t i) { return exchanged[i]; }),
            [=](auto... last) {
                return side_.comm.alltoallv(from, to_each, to, from_each, last...);
            },
            [=](auto... last) {
                return side_.comm.alltoallv(static_cast<const void *>(from), to_each,
                                            static_cast<void *>(to), from_each, type_of<T>(),
                                            last...);
            });
    }
    void plan_allgatherv(const std::vector<std::size_t> &of_each,
                         const std::vector<unsigned> &gathered) {
        std::size_t mine = of_each[rank_];
        T *from = source(mine, [=](std::size_t i) { return given(rank_, i); });
        T *to = result(gathered.size());
        add<ccl::allgatherv_attr_t>(
            "allgatherv",
            compare("allgatherv", to, gathered.size(), [=](std::size_t i) { return gathered[i]; }),
            [=](auto... last) { // counts that end with the call
                return side_.comm.allgatherv(from, mine, to, std::vector<std::size_t>(of_each),
                                             last...);
            },
            [=](auto... last) {
                return side_.comm.allgatherv(static_cast<const void *>(from), mine,
                                             static_cast<void *>(to), of_each, type_of<T>(),
                                             last...);
            });
    }

    Side &side_;
    std::size_t n_, rank_, count_;
    bool typed_;
    std::vector<planned> calls_;
};

// All types, both kinds of overloads, both orders, then synchronous.
template <class T, class Side> void run_type(Side &side, std::size_t count) {
    for (bool typed : {true, false}) {
        batch<Side, T> all(side, count, typed);
        EXPECT(all.size() == 17);
        all.run(true, "");
        all.run(false, typed ? " a" : " b");
        all.run(false, typed ? " a" : " b");
        all.run_synchronous();
        side.drop();
        if (!has_type<T>) {
            break;
        }
    }
}

template <class Side> void run_types(Side &side, std::size_t count) {
    run_type<std::int8_t>(side, count);
    run_type<std::uint8_t>(side, count);
    run_type<std::int16_t>(side, count);
    run_type<std::uint16_t>(side, count);
    run_type<std::int32_t>(side, count);
    run_type<std::uint32_t>(side, count);
    run_type<std::int64_t>(side, count);
    run_type<std::uint64_t>(side, count);
    run_type<float>(side, count);
    run_type<double>(side, count);
    run_type<float16>(side, count);
    run_type<bfloat16>(side, count);
}

// Buffers in the host's memory.
struct host_side {
    ccl::communicator &comm;
    std::vector<std::unique_ptr<char[]>> memory{};

    void *take(std::size_t bytes) {
        memory.push_back(std::make_unique<char[]>(bytes + 16));
        return memory.back().get();
    }
    void drop() {
        memory.clear();
    }
    void put(void *to, const void *from, std::size_t bytes) {
        if (bytes > 0) { // else both may be NULL
            std::memcpy(to, from, bytes);
        }
    }
    void get(void *to, const void *from, std::size_t bytes) {
        if (bytes > 0) { // else both may be NULL
            std::memcpy(to, from, bytes);
        }
    }
    template <class Attr, class Call> ccl::request_t call(const Attr &attr, Call &&call) {
        return call(attr);
    }
};

#endif
