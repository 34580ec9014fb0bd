// sum.cpp: a program as oneCCL's own are written, for a rank in each process. ranks.cpp runs it with threads.
#include <mpi.h>
#include <oneapi/ccl.hpp>

#include <cstdio>
#include <vector>

static int calls; // a global of each rank's own

int main() {
    int size, rank;
    ccl::init();
    MPI_Init(nullptr, nullptr);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);

    ccl::kvs::address_type address;
    ccl::shared_ptr_class<ccl::kvs> kvs;
    if (rank == 0) {
        kvs = ccl::create_main_kvs();
        address = kvs->get_address();
    }
    MPI_Bcast(address.data(), static_cast<int>(address.size()), MPI_BYTE, 0, MPI_COMM_WORLD);
    if (rank != 0) {
        kvs = ccl::create_kvs(address);
    }
    auto comm = ccl::create_communicator(size, rank, kvs);

    std::vector<int> mine(1000, rank + 1), sums(1000);
    for (; calls < 10; calls++) {
        ccl::allreduce(mine.data(), sums.data(), mine.size(), ccl::reduction::sum, comm).wait();
    }
    for (int sum : sums) {
        if (sum != size * (size + 1) / 2 || calls != 10) {
            std::printf("rank %d: wrong\n", rank);
            return 1;
        }
    }
    if (rank == 0) {
        std::printf("%d ranks, interface %d.%d: right\n", size, CCL_MAJOR_VERSION,
                    CCL_MINOR_VERSION);
    }
    MPI_Finalize();
    return 0;
}
