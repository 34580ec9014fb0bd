// gradients.cpp: data-parallel training with the interface of oneCCL: threads are ranks, each has samples and a copy of the weights.
//
// A layer's gradient is summed over all ranks as soon as it is there: a call by match_id, the layer's name. Ranks finish their
// layers in different orders, and need not agree on one. Then the sums are waited for, and every copy takes the same step.
//
// usage: gradients [ranks [steps]]      (default 4 and 20)
#include <heddle/ccl.hpp>

#include <cstdio>
#include <cstdlib>
#include <thread>

namespace ccl = heddle::ccl;

namespace {

constexpr std::size_t layers = 6;
constexpr float rate = 0.1F;

std::size_t width(std::size_t layer) {
    return 64U << layer;
}

struct trainer {
    std::vector<std::vector<float>> weights, gradients, sums;

    trainer() {
        for (std::size_t layer = 0; layer < layers; layer++) {
            weights.emplace_back(width(layer), 1.0F);
            gradients.emplace_back(width(layer));
            sums.emplace_back(width(layer));
        }
    }

    // What a rank's samples want: whole numbers, so that every order of additions gives the same.
    void back_propagate(std::size_t layer, int rank, int step) {
        for (std::size_t i = 0; i < width(layer); i++) {
            gradients[layer][i] = static_cast<float>((static_cast<int>(i) + rank + step) % 7 - 3);
        }
    }

    void step(const ccl::communicator &comm, int number) {
        std::vector<ccl::request_t> requests;
        ccl::allreduce_attr_t attr;
        for (std::size_t k = 0; k < layers; k++) {
            std::size_t layer =
                (k + static_cast<std::size_t>(comm.rank())) % layers; // another order at each rank
            back_propagate(layer, comm.rank(), number);
            attr.set<ccl::operation_attr_id::match_id>("layer " + std::to_string(layer));
            requests.push_back(comm.allreduce(gradients[layer].data(), sums[layer].data(),
                                              width(layer), ccl::reduction::sum, attr));
        }
        for (auto &request : requests) {
            request->wait();
        }
        for (std::size_t layer = 0; layer < layers; layer++) {
            for (std::size_t i = 0; i < width(layer); i++) {
                weights[layer][i] -= rate * sums[layer][i] / static_cast<float>(comm.size());
            }
        }
    }
};

// The weights that one thread comes to with all samples.
bool is_right(const trainer &t, int ranks, int steps) {
    trainer alone;
    for (int number = 0; number < steps; number++) {
        for (std::size_t layer = 0; layer < layers; layer++) {
            std::vector<float> sum(width(layer));
            for (int rank = 0; rank < ranks; rank++) {
                alone.back_propagate(layer, rank, number);
                for (std::size_t i = 0; i < sum.size(); i++) {
                    sum[i] += alone.gradients[layer][i];
                }
            }
            for (std::size_t i = 0; i < sum.size(); i++) {
                alone.weights[layer][i] -= rate * sum[i] / static_cast<float>(ranks);
            }
        }
    }
    return alone.weights == t.weights;
}

} // namespace

int main(int argc, char **argv) {
    int ranks = argc > 1 ? std::atoi(argv[1]) : 4, steps = argc > 2 ? std::atoi(argv[2]) : 20;
    auto kvs = ccl::create_main_kvs();
    std::atomic<int> right{0};
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; rank++) {
        threads.emplace_back([&, rank] {
            try {
                auto comm = ccl::create_communicator(ranks, rank, kvs);
                trainer mine;
                for (int number = 0; number < steps; number++) {
                    mine.step(comm, number);
                }
                right += is_right(mine, ranks, steps) ? 1 : 0;
            } catch (const ccl::exception &e) {
                std::fprintf(stderr, "gradients: rank %d: %s\n", rank, e.what());
            }
        });
    }
    for (auto &thread : threads) {
        thread.join();
    }
    std::printf("%d of %d ranks have the weights of one thread\n", right.load(), ranks);
    return ranks > 0 && right == ranks ? 0 : 1;
}
