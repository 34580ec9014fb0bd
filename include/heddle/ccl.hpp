/* ccl.hpp: collectives in C++, as oneCCL's specification has them, over <heddle/heddle.h>.
 *
 *     namespace ccl = heddle::ccl;
 *
 *     void work(int rank, std::shared_ptr<ccl::kvs> kvs) { // a thread for each rank
 *         auto comm = ccl::create_communicator(4, rank, kvs);
 *         double x = rank, sum;
 *         comm.allreduce(&x, &sum, 1, ccl::reduction::sum)->wait();
 *     }
 *
 * Ranks are threads of one process (kvs.hpp). Collectives are methods of communicators
 * (communicator.hpp; on memory of devices device.hpp) and, as oneCCL has them now, functions
 * (functions.hpp). A program is linked with libheddle and nothing else. Every call that fails
 * throws an exception whose base is ccl::exception, which has the status. What the specification's
 * calls are here: docs/ccl.md.
 */
#ifndef HEDDLE_CCL_HPP_
#define HEDDLE_CCL_HPP_

#include <heddle/ccl/functions.hpp>

#endif
