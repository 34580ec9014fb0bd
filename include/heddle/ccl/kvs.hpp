/* ccl/kvs.hpp: key-value stores, over which ranks become a communicator.
 *
 * A store is of one process; copies of the pointer, and stores made from its address, are the same
 * one. Ranks meet in it: the first that comes makes a group of the C library, each joins, and
 * nobody goes on before all have. Whoever fails fails the meeting and all later ones of that store,
 * so that nobody waits for ranks that will not come. Ranks of several processes meet over TCP where
 * <heddle/ccl/processes.hpp> is included: a link.
 */
#ifndef HEDDLE_CCL_KVS_HPP_
#define HEDDLE_CCL_KVS_HPP_

#include <heddle/ccl/request.hpp>

#if __cplusplus >= 201703L /* else types.hpp has said so */

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <random>

#include <unistd.h>

namespace heddle {
namespace ccl {

class kvs_interface {
  public:
    virtual ~kvs_interface() = default;
    virtual vector_class<char> get(const string_class &key) = 0;
    virtual void set(const string_class &key, const vector_class<char> &data) = 0;
};

/** How a communicator is made; the same at all ranks. thread_mode: UCC_THREAD_MULTIPLE, the
 *  default, or UCC_THREAD_SINGLE: one thread at a time uses a rank, and waits for no other rank of
 *  its own meanwhile. */
enum class comm_attr_id : int { version, thread_mode };
enum class kvs_attr_id : int { version };
enum class init_attr_id : int { version };

class comm_attr {
  public:
    template <auto id> void set(ucc_thread_mode_t mode) {
        static_assert(id == comm_attr_id::thread_mode, "no such attribute");
        mode_ = mode;
    }
    template <auto id> ucc_thread_mode_t get() const {
        static_assert(id == comm_attr_id::thread_mode, "no such attribute");
        return mode_;
    }

  private:
    ucc_thread_mode_t mode_ = UCC_THREAD_MULTIPLE;
};

struct kvs_attr {};
struct init_attr {};

namespace detail {

/** Waits until `done`, with the lock; long waits are logged, and time out, as the library's own
 *  (docs/hangs.md). who() and whom() say who waits for whom; an empty whom(): another one says
 *  it. */
template <class Done, class Who, class Whom>
void await(std::unique_lock<std::mutex> &lock, std::condition_variable &changed, const char *call,
           Done done, Who who, Whom whom) {
    using seconds = std::chrono::duration<double>;
    constexpr double longest = 1e6; // that clocks can count for certain
    if (done()) {
        return;
    }
    auto begun = std::chrono::steady_clock::now();
    double waited = 0, next = 0;
    do {
        std::string missing = whom();
        check(heddle_watch_wait(who().c_str(), missing.empty() ? nullptr : missing.c_str(), waited,
                                &next),
              call);
        double rest = std::max(0.0, std::min(next - waited, longest));
        changed.wait_for(lock, std::chrono::duration_cast<std::chrono::nanoseconds>(seconds(rest)),
                         done);
        waited = seconds(std::chrono::steady_clock::now() - begun).count();
    } while (!done());
}

/** Ranks that become a communicator. What is not atomic is the store's lock's. */
struct meeting {
    explicit meeting(std::size_t ranks, const comm_attr &how)
        : size(ranks), mode(how.get<comm_attr_id::thread_mode>()), present(ranks) {
        heddle_group_params_t params = {};
        params.endpoints = static_cast<std::uint32_t>(size);
        params.thread_mode = mode;
        check(heddle_group_create(&params, &group), "create_communicators");
    }
    meeting(const meeting &) = delete;
    meeting &operator=(const meeting &) = delete;
    ~meeting() {
        (void)heddle_group_destroy(group);
    }

    bool present_before(std::size_t rank) const {
        return std::find(present.begin(), present.begin() + static_cast<std::ptrdiff_t>(rank),
                         true) != present.begin() + static_cast<std::ptrdiff_t>(rank);
    }
    std::string missing() const {
        constexpr std::size_t few = 8;
        std::string names;
        std::size_t more = size - joined;
        for (std::size_t rank = 0, n = 0; rank < size && n < few; rank++) {
            if (!present[rank]) {
                names += (n++ ? ", " : more > 1 ? "ranks " : "rank ") + std::to_string(rank);
            }
        }
        return names + (more > few ? " and " + std::to_string(more - few) + " more" : "");
    }

    std::size_t size;
    ucc_thread_mode_t mode;
    std::vector<bool> present;
    std::size_t joined = 0;
    heddle_group_t *group = nullptr;
};

using ranks = std::vector<std::size_t>;
using members = std::vector<member_ref>;

constexpr std::size_t address_bytes = 256;
using address = std::array<char, address_bytes>;

/** A store's way to other processes. */
class link {
  public:
    virtual ~link() = default;
    virtual members meet(std::size_t size, const ranks &mine, const comm_attr &how) = 0;
    /** What others need to link to it, behind the address's first bytes. */
    virtual void tell(address &to) const = 0;

    /** Makes one: of a main store (NULL), or to the one with that address. NULL: there are no
     * processes. */
    using maker = std::shared_ptr<link> (*)(const address *to);
    static maker &make() {
        static maker how = nullptr;
        return how;
    }
};

inline std::uint64_t pid() {
    return static_cast<std::uint64_t>(::getpid());
}

/** An address begins with the process and the store's number there. */
struct origin {
    std::uint64_t process[2];
    std::uint64_t number;
};

inline bool operator<(const origin &a, const origin &b) {
    return std::memcmp(&a, &b, sizeof(a)) < 0;
}

/** What all stores of one address share. */
class store {
  public:
    std::vector<char> get(const std::string &key) {
        begin_call();
        std::unique_lock<std::mutex> lock(mutex_);
        detail::await(
            lock, changed_, "get", [&] { return values_.count(key) != 0; },
            [] { return std::string("get of a store"); },
            [&] { return "the value of '" + key + "'"; });
        return values_[key];
    }

    void set(const std::string &key, const std::vector<char> &data) {
        std::unique_lock<std::mutex> lock(mutex_);
        values_[key] = data;
        changed_.notify_all();
    }

    /** The members of the given ranks, in their order. */
    members meet(std::size_t size, const ranks &mine, const comm_attr &how) {
        std::unique_lock<std::mutex> lock(mutex_);
        if (link_) {
            std::shared_ptr<link> over = link_;
            lock.unlock();
            return over->meet(size, mine, how);
        }
        try {
            require(size > 0 && size <= most_ranks, "create_communicators", "no such size", size);
            if (!meeting_ && !failed_) {
                meeting_ = std::make_shared<meeting>(size, how);
            }
            std::shared_ptr<meeting> met = meeting_; // the last one ends the group
            members made = join(met.get(), size, mine, how);
            await(lock, *met, mine[0]);
            return made;
        } catch (...) {
            failed_ = true;
            meeting_ = nullptr;
            changed_.notify_all();
            throw;
        }
    }

    /** From now on ranks may be of other processes. */
    void tell(address &to) {
        std::unique_lock<std::mutex> lock(mutex_);
        if (!link_ && link::make()) {
            link_ = link::make()(nullptr);
        }
        if (link_) {
            link_->tell(to);
        }
    }
    void connect(const address &to) {
        link_ = link::make()(&to);
    }

  private:
    members join(meeting *to, std::size_t size, const ranks &mine, const comm_attr &how) {
        const char *call = "create_communicators";
        members made;
        made.reserve(mine.size());
        if (!to) {
            throw exception("create_communicators: a rank has failed in this store",
                            UCC_ERR_NOT_FOUND);
        }
        meeting &met = *to;
        require(!mine.empty(), call, "no rank");
        if (size != met.size) {
            refuse(call, ("size " + std::to_string(size) + ", where another rank has " +
                          std::to_string(met.size))
                             .c_str());
        }
        require(how.get<comm_attr_id::thread_mode>() == met.mode, call,
                "another rank has another thread mode");
        for (std::size_t rank : mine) {
            heddle_ep_t *ep = nullptr;
            require(rank < size, call, "a rank that is not below the size", rank, size);
            require(!met.present[rank], call, "two of one rank", rank);
            check(heddle_join(met.group, static_cast<std::uint32_t>(rank), &ep), call);
            met.present[rank] = true;
            met.joined++;
            made.push_back(adopt(ep));
        }
        return made;
    }

    void await(std::unique_lock<std::mutex> &lock, meeting &met, std::size_t rank) {
        if (met.joined == met.size) {
            meeting_ = nullptr;
            changed_.notify_all();
        }
        detail::await(
            lock, changed_, "create_communicators",
            [&] { return failed_ || met.joined == met.size; },
            [&] {
                return "create_communicators of " + std::to_string(met.size) + ": rank " +
                       std::to_string(rank);
            },
            [&] { return met.present_before(rank) ? std::string() : met.missing(); });
        if (met.joined < met.size) {
            throw exception("create_communicators: another rank has failed", UCC_ERR_NOT_FOUND);
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::string, std::vector<char>> values_;
    std::shared_ptr<link> link_;       // NULL: all ranks are of this process
    std::shared_ptr<meeting> meeting_; // that not all have come to
    bool failed_ = false;              // one of them
};

/** The stores that this process has, its own and others'. */
class stores {
  public:
    static stores &instance() {
        static stores &all = of_process();
        return all;
    }

    std::shared_ptr<store> add(origin &of) {
        std::unique_lock<std::mutex> lock(mutex_);
        become_child();
        of = {{process_[0], process_[1]}, ++last_};
        return keep(of);
    }
    std::shared_ptr<store> find(const origin &of, const address &at) {
        std::unique_lock<std::mutex> lock(mutex_);
        become_child();
        auto known = known_.find(of);
        std::shared_ptr<store> found = known == known_.end() ? nullptr : known->second.lock();
        if (!found) {
            require(of.process[0] != process_[0] || of.process[1] != process_[1], "create_kvs",
                    "a store of this process that is no more");
            if (!link::make()) {
                throw unsupported(
                    "create_kvs: a store of another process, without <heddle/ccl/processes.hpp>");
            }
            found = std::make_shared<store>();
            found->connect(at);
            known_[of] = found;
        }
        return found;
    }

  private:
    stores() {
        draw();
    }
    /** One for the process, also where copies of a program have each their own of all else. */
    static stores &of_process() {
        std::exception_ptr failure; // it must not pass through the C library's frames
        thread_local std::exception_ptr *caught;
        caught = &failure;
        void *made = heddle_process_object("ccl::stores of " HEDDLE_VERSION_STRING, []() -> void * {
            try {
                return new stores;
            } catch (...) {
                *caught = std::current_exception();
                return nullptr;
            }
        });
        if (failure) {
            std::rethrow_exception(failure);
        }
        if (!made) {
            throw std::bad_alloc();
        }
        return *static_cast<stores *>(made);
    }
    void draw() {
        std::random_device random;
        for (std::uint64_t &word : process_) {
            word = static_cast<std::uint64_t>(random()) << 32 | random();
        }
    }
    /** In the child of a fork its parent's stores are another process's. */
    void become_child() {
        if (owner_ != pid()) {
            owner_ = pid();
            known_.clear();
            draw();
        }
    }
    std::shared_ptr<store> keep(const origin &of) {
        for (auto at = known_.begin(); at != known_.end();) {
            at = at->second.expired() ? known_.erase(at) : std::next(at);
        }
        auto made = std::make_shared<store>();
        known_[of] = made;
        return made;
    }

    std::mutex mutex_;
    std::map<origin, std::weak_ptr<store>> known_;
    std::uint64_t process_[2];
    std::uint64_t owner_ = pid();
    std::uint64_t last_ = 0;
};

} // namespace detail

class kvs;
shared_ptr_class<kvs> create_main_kvs(const kvs_attr &attr = kvs_attr());

/** Values stay in their process. */
class kvs final : public kvs_interface {
  public:
    static constexpr std::size_t address_max_size = detail::address_bytes;
    using address_type = detail::address;

    kvs() : store_(detail::stores::instance().add(origin_)) {
    }
    explicit kvs(const address_type &address) {
        std::memcpy(&origin_, address.data(), sizeof(origin_));
        store_ = detail::stores::instance().find(origin_, address);
    }

    /** To be given to create_kvs(), in this process or, with <heddle/ccl/processes.hpp>, in others:
     *  then to be asked for before the first communicator is made. Who knows it may take part. */
    address_type get_address() const {
        address_type address = {};
        std::memcpy(address.data(), &origin_, sizeof(origin_));
        store_->tell(address);
        return address;
    }

    /** Waits until somebody has set it. */
    vector_class<char> get(const string_class &key) override {
        return store_->get(key);
    }
    void set(const string_class &key, const vector_class<char> &data) override {
        store_->set(key, data);
    }

    /** Not for programs. */
    detail::store &shared() const noexcept {
        return *store_;
    }

  private:
    detail::origin origin_{};
    std::shared_ptr<detail::store> store_;
};

/** The store that the ranks of one communicator, or of several, one after the other, meet in. */
inline shared_ptr_class<kvs> create_main_kvs(const kvs_attr &) {
    return std::make_shared<kvs>();
}

inline shared_ptr_class<kvs> create_kvs(const kvs::address_type &address,
                                        const kvs_attr & = kvs_attr()) {
    return std::make_shared<kvs>(address);
}

} // namespace ccl
} // namespace heddle

#endif

#endif
