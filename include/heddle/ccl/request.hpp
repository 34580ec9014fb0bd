/* ccl/request.hpp: what a communicator is inside, and the requests of its calls.
 *
 * A member is one rank's end of a communicator: an endpoint of the C library. The communicator and
 * its requests hold it together; whoever is last leaves the team.
 */
#ifndef HEDDLE_CCL_REQUEST_HPP_
#define HEDDLE_CCL_REQUEST_HPP_

#include <heddle/ccl/driver.hpp>

#if __cplusplus >= 201703L /* else types.hpp has said so */

#include <exception>

namespace heddle {
namespace ccl {
namespace detail {

/** One rank of a communicator. */
class member {
  public:
    /** Takes the endpoint, and the one that it is a sub-team's of, if any. The first holder is the
     * caller. */
    explicit member(heddle_ep_t *ep, heddle_ep_t *parent = nullptr)
        : ep_(ep), parent_(parent), team_(heddle_ep_team(ep)), rank_(heddle_ep_index(ep)),
          size_(heddle_ep_size(ep)) {
    }
    member(const member &) = delete;
    member &operator=(const member &) = delete;

    heddle_ep_t *ep() const noexcept {
        return ep_;
    }
    ucc_team_h team() const noexcept {
        return team_;
    }
    std::size_t rank() const noexcept {
        return rank_;
    }
    std::size_t size() const noexcept {
        return size_;
    }

    event_pool &events() noexcept {
        return events_;
    }

    void hold() noexcept {
        holders_.fetch_add(1, std::memory_order_relaxed); // by somebody who holds it
    }
    void drop() noexcept {
        // What each holder did comes before the last one's end.
        if (holders_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
            delete this;
        }
    }

  private:
    ~member() {
        (void)heddle_leave(ep_); // all requests have ended: each was a holder
        if (parent_) {
            (void)heddle_leave(parent_);
        }
    }

    heddle_ep_t *ep_, *parent_;
    ucc_team_h team_;
    std::uint32_t rank_, size_;
    event_pool events_;
    std::atomic<std::uint32_t> holders_{1};
};

/** Holds a member. */
class member_ref {
  public:
    member_ref() noexcept = default;
    explicit member_ref(member *taken) noexcept : member_(taken) {
    }
    member_ref(member_ref &&other) noexcept : member_(std::exchange(other.member_, nullptr)) {
    }
    member_ref(const member_ref &other) noexcept : member_(other.member_) {
        if (member_) {
            member_->hold();
        }
    }
    member_ref &operator=(member_ref other) noexcept {
        std::swap(member_, other.member_);
        return *this;
    }
    ~member_ref() {
        if (member_) {
            member_->drop();
        }
    }
    member *get() const noexcept {
        return member_;
    }

  private:
    member *member_ = nullptr;
};

/** Leaves the endpoint if there is no memory. */
inline member_ref adopt(heddle_ep_t *ep, heddle_ep_t *parent = nullptr) {
    try {
        return member_ref(new member(ep, parent));
    } catch (...) {
        (void)heddle_leave(ep);
        if (parent) {
            (void)heddle_leave(parent);
        }
        throw;
    }
}

/** How many words a request needs behind itself, for the counts of its call. */
struct words {
    std::size_t n;
};

} // namespace detail

/** A call that has been made. Its buffers are the library's until it is complete. One that is
 *  destroyed before waits until then (on a device: until all is enqueued); but where an exception
 *  destroys it, the communicator is aborted, so that nobody waits for ranks that will not come: all
 *  that is outstanding on it ends with HEDDLE_ERR_ABORTED, at every rank. */
class request {
  public:
    request(const request &) = delete;
    request &operator=(const request &) = delete;
    ~request() {
        if (handle_) {
            give_up();
        }
        if (event_.event) {
            member_.get()->events().put(event_);
        }
    }

    /** Returns when the call is complete; throws if it has failed. Again: the same at once. */
    void wait() {
        wait_enqueued();
        if (event_.event) {
            detail::wait_for(event_.event);
        }
    }

    /** Whether it is complete; throws if it has failed. Makes progress. */
    bool test() {
        detail::begin_call();
        if (handle_) {
            ucc_status_t status = heddle_test(handle_);
            if (status == UCC_INPROGRESS) {
                return false;
            }
            end(status);
        }
        detail::check(status_, "test");
        return !event_.event || detail::is_reached(event_.event);
    }

    /** A call that has begun can't be taken back: false, and it goes on. */
    bool cancel() noexcept {
        return false;
    }

    /** Of a call on a stream: returns when all of it is enqueued there, so that the program may go
     *  on with the stream. Only calls with a match_id, and those of a group, return before. */
    void wait_enqueued() {
        detail::begin_call();
        if (handle_) {
            end(heddle_wait(handle_, -1));
        }
        detail::check(status_, "wait");
    }

    /** Of a call on a stream: the event that is signalled when it is complete. */
    event_t get_event() {
        if (!event_.event) {
            throw unsupported("get_event: the call is not on a device");
        }
        wait_enqueued();
        return event_t(event_.event);
    }

    bool on_device() const noexcept {
        return event_.event != nullptr;
    }

    /** What follows is not for programs. */
    static void *operator new(std::size_t bytes, detail::words behind) {
        return ::operator new(bytes + behind.n * sizeof(std::uint64_t));
    }
    static void operator delete(void *memory) {
        ::operator delete(memory);
    }
    static void operator delete(void *memory, detail::words) {
        ::operator delete(memory);
    }
    explicit request(const detail::member_ref &of) noexcept : member_(of) {
    }
    std::uint64_t *behind() noexcept {
        return reinterpret_cast<std::uint64_t *>(this + 1);
    }

    /** Starts the operation; tag NULL: in the order of calls. */
    void start(ucc_coll_args_t &args, const std::uint64_t *tag) {
        ucc_coll_req_h handle = prepare(args, tag);
        begun(handle, ucc_collective_post(handle));
    }

    /** The same on a stream; posted: returns before it is enqueued, as one with a tag does. */
    void start_on(ucc_coll_args_t &args, const std::uint64_t *tag, void *stream, bool posted) {
        event_ = member_.get()->events().take(stream);
        stream_ = stream;
        if (tag || posted) {
            ucc_coll_req_h handle = prepare(args, tag);
            begun(handle, heddle_post_on(handle, stream));
        } else {
            detail::check(heddle_collective_on(&args, member_.get()->team(), stream), "collective");
            detail::record(event_, stream_);
        }
    }

  private:
    ucc_coll_req_h prepare(ucc_coll_args_t &args, const std::uint64_t *tag) {
        ucc_coll_req_h handle = nullptr;
        ucc_team_h team = member_.get()->team();
        detail::check(tag ? heddle_collective_init_tagged(&args, *tag, &handle, team)
                          : ucc_collective_init(&args, &handle, team),
                      "collective");
        return handle;
    }
    void begun(ucc_coll_req_h handle, ucc_status_t status) {
        if (status < 0) {
            (void)heddle_request_free(&handle);
            detail::fail(status, "collective");
        }
        handle_ = handle;
    }
    void end(ucc_status_t status) {
        bool records = event_.event && status == UCC_OK;
        status_ =
            records ? UCC_ERR_IO_ERROR : status; // if it can't be recorded, nobody waits for it
        (void)heddle_request_free(&handle_);
        if (records) {
            detail::record(event_, stream_);
            status_ = status;
        }
    }
    void give_up() noexcept {
        if (heddle_test(handle_) == UCC_INPROGRESS) {
            if (std::uncaught_exceptions() > exceptions_) {
                (void)heddle_team_abort(member_.get()->team());
            }
            (void)heddle_wait(handle_, -1);
        }
        (void)heddle_request_free(&handle_);
    }

    detail::member_ref member_;
    ucc_coll_req_h handle_ = nullptr; // NULL: it is complete, or enqueued
    ucc_status_t status_ = UCC_OK;    // then
    // Under way when the request was made, in a destructor: those don't destroy it.
    int exceptions_ = std::uncaught_exceptions();
    void *stream_ = nullptr;
    detail::pooled_event event_; // none: on the host
};

using request_t = unique_ptr_class<request>;

namespace detail {

/** The thread's calls between group_start() and group_end() that the program has not kept. */
struct group {
    static group &current() {
        thread_local group mine;
        return mine;
    }
    /** For one more call, so that its event needs no memory when it is destroyed. */
    void expect() {
        if (++made > calls.capacity()) {
            calls.reserve(2 * made);
        }
    }
    /** Events from before the group come, too, and take what calls have expected; where there is no
     *  memory for more, what is destroyed waits. */
    void keep(request_t &&call) noexcept {
        try {
            calls.push_back(std::move(call));
        } catch (const std::bad_alloc &) {
            call = nullptr;
        }
    }

    unsigned depth = 0;
    std::size_t made = 0; // calls, kept or not
    std::vector<request_t> calls;
};

} // namespace detail

} // namespace ccl
} // namespace heddle

#endif

#endif
