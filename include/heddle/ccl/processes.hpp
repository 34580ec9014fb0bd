/* ccl/processes.hpp: communicators whose ranks are of several processes. A program includes this
 * beside <heddle/ccl.hpp>, and is linked with libheddle_bootstrap, too (pkg-config
 * heddle-bootstrap).
 *
 * One process makes the store, and has rank 0; it sends the store's address, 256 bytes, to the
 * others by whatever way it has. The address contains a key: whoever knows it may take part. The
 * process listens at 127.0.0.1, or at the address that HEDDLE_CCL_HOST names, from get_address()
 * until the store ends.
 *
 * A communicator is made in three steps. All ranks meet over TCP, each as a participant, and learn
 * who shares a process. Then the processes' lowest ranks meet, and each makes a group of the C
 * library for its process's ranks, with that exchange; where ranks of a process are not in a row, a
 * sub-team numbers them. At last all ranks tell each other whether they have joined: if one has
 * not, nobody has a communicator. The exchanges end then.
 */
#ifndef HEDDLE_CCL_PROCESSES_HPP_
#define HEDDLE_CCL_PROCESSES_HPP_

#include <heddle/bootstrap.h>
#include <heddle/ccl/kvs.hpp>

#if __cplusplus >= 201703L /* else types.hpp has said so */

#include <cstdlib>
#include <thread>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace heddle {
namespace ccl {
namespace detail {

/** Where rank 0 listens, and the key. */
struct place {
    std::array<char, 32> key;
    std::array<char, 128> at; // host:port
};
constexpr std::size_t place_offset = sizeof(origin);
static_assert(place_offset + sizeof(place) <= address_bytes, "an address holds it");

/** An exchange among participants. */
class exchange {
  public:
    exchange(const place &of, int listener, std::size_t rank, std::size_t size) {
        heddle_bootstrap_params_t params = {};
        params.rank = static_cast<std::uint32_t>(rank);
        params.size = static_cast<std::uint32_t>(size);
        params.address = of.at.data();
        params.listener = rank == 0 ? listener : 0;
        params.key = of.key.data();
        params.key_bytes = of.key.size();
        heddle_bootstrap_forget_error();
        must(heddle_bootstrap_tcp(&params, &bootstrap_));
        heddle_bootstrap_oob(bootstrap_, &oob_);
    }
    exchange(const exchange &) = delete;
    exchange &operator=(const exchange &) = delete;
    ~exchange() {
        (void)heddle_bootstrap_end(bootstrap_);
    }
    const ucc_oob_coll_t &oob() const noexcept {
        return oob_;
    }

    template <class Block> std::vector<Block> gather(Block mine) {
        std::vector<Block> all(oob_.n_oob_eps);
        void *request = nullptr;
        heddle_bootstrap_forget_error();
        must(oob_.allgather(&mine, all.data(), sizeof(Block), oob_.coll_info, &request));
        ucc_status_t status;
        while ((status = oob_.req_test(request)) == UCC_INPROGRESS) {
            std::this_thread::yield();
        }
        (void)oob_.req_free(request);
        must(status);
        return all;
    }

  private:
    /** Lines of the exchange are its library's. */
    static void must(ucc_status_t status) {
        if (status < 0) {
            fail(status, "create_communicators", heddle_bootstrap_last_error());
        }
    }

    heddle_bootstrap_t *bootstrap_ = nullptr;
    ucc_oob_coll_t oob_;
};

/** What each rank tells the others. */
struct card {
    std::uint64_t process[2]; // of the link
    std::uint64_t mode;
};

/** Who is where: known alike to all ranks. Processes are numbered by their lowest ranks. */
struct layout {
    explicit layout(const std::vector<card> &cards)
        : process_of(cards.size()), number_of(cards.size()) {
        std::vector<const card *> seen;
        for (std::size_t rank = 0; rank < cards.size(); rank++) {
            std::size_t p = 0;
            while (p < seen.size() &&
                   std::memcmp(seen[p]->process, cards[rank].process, sizeof(card::process)) != 0) {
                p++;
            }
            if (p == seen.size()) {
                seen.push_back(&cards[rank]);
                local.emplace_back();
            }
            process_of[rank] = p;
            local[p].push_back(rank);
        }
        std::uint32_t next = 0;
        for (const ranks &of : local) {
            for (std::size_t rank : of) {
                in_order = in_order && rank == next;
                number_of[rank] = next++;
            }
        }
    }
    std::vector<std::size_t> process_of;
    std::vector<ranks> local;             // by process, ascending
    std::vector<std::uint32_t> number_of; // in the group
    bool in_order = true;
};

/** The group of a process's ranks, which its lowest one makes. */
struct local_group {
    ~local_group() {
        if (group) {
            (void)heddle_group_destroy(group);
        }
    }
    heddle_group_t *group = nullptr;
    bool failed = false;
};

class tcp_link final : public link {
  public:
    explicit tcp_link(const address *to) {
        std::random_device random;
        for (std::uint64_t &word : process_) {
            word = static_cast<std::uint64_t>(random()) << 32 | random();
        }
        if (to) {
            std::memcpy(&place_, to->data() + place_offset, sizeof(place_));
            place_.at.back() = 0;
            require(place_.at[0] != 0, "create_kvs", "an address that leads to no process");
        } else {
            for (char &c : place_.key) {
                c = static_cast<char>(random());
            }
            listen();
        }
    }
    tcp_link(const tcp_link &) = delete;
    tcp_link &operator=(const tcp_link &) = delete;
    ~tcp_link() override {
        if (listener_ > 0) {
            (void)::close(listener_);
        }
    }

    void tell(address &to) const override {
        std::memcpy(to.data() + place_offset, &place_, sizeof(place_));
    }

    /** Each rank in a thread: all of them must be there at once. */
    members meet(std::size_t size, const ranks &mine, const comm_attr &how) override {
        require(size > 0 && size <= 65536, "create_communicators", "no such size", size);
        require(!mine.empty(), "create_communicators", "no rank");
        for (std::size_t rank : mine) {
            require(rank < size, "create_communicators", "a rank that is not below the size", rank,
                    size);
            require(rank != 0 || (listener_ > 0 && listens_ == pid()), "create_communicators",
                    "rank 0 in another process than the one that made the store");
        }
        {
            std::unique_lock<std::mutex> lock(mutex_);
            if (failed_) {
                throw exception("create_communicators: a rank has failed in this store",
                                UCC_ERR_NOT_FOUND);
            }
        }
        members made(mine.size());
        std::vector<std::exception_ptr> failures(mine.size());
        std::vector<std::thread> threads;
        auto one = [&](std::size_t i) {
            try {
                made[i] = meet_one(size, mine[i], how);
            } catch (...) {
                failures[i] = std::current_exception();
                fail_later();
            }
        };
        threads.reserve(mine.size());
        for (std::size_t i = 1; i < mine.size(); i++) {
            try {
                threads.emplace_back(one, i);
            } catch (...) { // the others' meeting fails without this rank
                failures[i] = std::current_exception();
                fail_later();
            }
        }
        one(0);
        for (std::thread &thread : threads) {
            thread.join();
        }
        for (const std::exception_ptr &failure : failures) {
            if (failure) {
                std::rethrow_exception(failure);
            }
        }
        return made;
    }

  private:
    void listen() {
        const char *host = std::getenv("HEDDLE_CCL_HOST");
        sockaddr_in at = {};
        socklen_t bytes = sizeof(at);
        host = host && *host ? host : "127.0.0.1";
        at.sin_family = AF_INET;
        require(inet_pton(AF_INET, host, &at.sin_addr) == 1, "get_address",
                "HEDDLE_CCL_HOST is no IPv4 address");
        listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (listener_ < 0 || ::bind(listener_, reinterpret_cast<sockaddr *>(&at), bytes) != 0 ||
            ::listen(listener_, 1024) != 0 ||
            ::getsockname(listener_, reinterpret_cast<sockaddr *>(&at), &bytes) != 0) {
            if (listener_ >= 0) {
                (void)::close(listener_);
            }
            throw exception("get_address: can't listen at " + std::string(host), UCC_ERR_IO_ERROR);
        }
        std::string text = std::string(host) + ":" + std::to_string(ntohs(at.sin_port));
        require(text.size() < place_.at.size(), "get_address", "a host with too long a name");
        std::memcpy(place_.at.data(), text.c_str(), text.size() + 1);
    }

    /** Who waits for a group that a rank of this process would have made learns that it will not
     * come. */
    void fail_later() {
        std::unique_lock<std::mutex> lock(mutex_);
        failed_ = true;
        changed_.notify_all();
    }

    member_ref meet_one(std::size_t size, std::size_t rank, const comm_attr &how) {
        ucc_thread_mode_t mode = how.get<comm_attr_id::thread_mode>();
        exchange all(place_, listener_, rank, size);
        std::vector<card> cards =
            all.gather(card{{process_[0], process_[1] + pid()}, static_cast<std::uint64_t>(mode)});
        for (const card &c : cards) {
            require(c.mode == cards[0].mode, "create_communicators",
                    "another rank has another thread mode");
        }
        member_ref made;
        std::exception_ptr failure;
        try {
            made = take_part(layout(cards), rank, mode);
        } catch (...) {
            failure = std::current_exception();
            fail_later(); // this process's others may be waiting for a group
        }
        // Without this, calls of those who have joined would wait for one that has not.
        std::vector<std::uint64_t> failed = all.gather(std::uint64_t{failure != nullptr});
        if (failure) {
            std::rethrow_exception(failure);
        }
        for (std::uint64_t one : failed) {
            if (one) {
                throw exception("create_communicators: another rank has failed", UCC_ERR_NOT_FOUND);
            }
        }
        return made;
    }

    member_ref take_part(const layout &known, std::size_t rank, ucc_thread_mode_t mode) {
        const ranks &local = known.local[known.process_of[rank]];
        std::shared_ptr<local_group> group =
            rank == local[0] ? make_group(known, rank, mode) : await_group(rank);
        {
            std::unique_lock<std::mutex> lock(mutex_);
            groups_.erase(rank);
        }
        return join(*group, known, rank);
    }

    /** The lowest rank's part: a group, which it hands to the others of its process. */
    std::shared_ptr<local_group> make_group(const layout &known, std::size_t rank,
                                            ucc_thread_mode_t mode) {
        std::size_t p = known.process_of[rank];
        auto made = std::make_shared<local_group>();
        try {
            exchange leaders(place_, listener_, p, known.local.size());
            heddle_group_params_t params = {};
            params.endpoints = static_cast<std::uint32_t>(known.local[p].size());
            params.thread_mode = mode;
            params.oob = known.local.size() > 1 ? &leaders.oob() : nullptr;
            check(heddle_group_create(&params, &made->group), "create_communicators");
        } catch (...) {
            made->failed = true;
            hand_out(known.local[p], made);
            throw;
        }
        hand_out(known.local[p], made);
        return made;
    }

    void hand_out(const ranks &local, const std::shared_ptr<local_group> &made) {
        std::unique_lock<std::mutex> lock(mutex_);
        for (std::size_t i = 1; i < local.size(); i++) {
            groups_[local[i]] = made;
        }
        changed_.notify_all();
    }

    std::shared_ptr<local_group> await_group(std::size_t rank) {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [&] { return failed_ || groups_.count(rank) != 0; });
        auto found = groups_.find(rank);
        if (found == groups_.end() || found->second->failed) {
            throw exception("create_communicators: another rank has failed", UCC_ERR_NOT_FOUND);
        }
        return found->second;
    }

    static member_ref join(const local_group &of, const layout &known, std::size_t rank) {
        const ranks &local = known.local[known.process_of[rank]];
        std::uint32_t index = known.number_of[rank] - known.number_of[local[0]];
        heddle_ep_t *parent = nullptr, *ep = nullptr;
        check(heddle_join(of.group, index, &parent), "create_communicators");
        if (known.in_order) {
            return adopt(parent);
        }
        ucc_status_t status =
            heddle_subset(parent, known.number_of.data(),
                          static_cast<std::uint32_t>(known.number_of.size()), &ep);
        if (status < 0) {
            (void)heddle_leave(parent);
            fail(status, "create_communicators");
        }
        return adopt(ep, parent);
    }

    std::uint64_t process_[2]; // and its number, which a fork changes
    std::uint64_t listens_ = pid();
    place place_{};
    int listener_ = 0; // 0: none
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::size_t, std::shared_ptr<local_group>> groups_; // by the rank that is to take it
    bool failed_ = false; // a rank of this process: it makes no communicator any more
};

inline std::shared_ptr<link> make_tcp_link(const address *to) {
    return std::make_shared<tcp_link>(to);
}

/** Before main(), wherever this header is included. */
inline const bool processes_included = (link::make() = make_tcp_link, true);

} // namespace detail
} // namespace ccl
} // namespace heddle

#endif

#endif
