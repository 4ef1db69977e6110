#include <memory>
#include <stdexcept>
#include <utility>

#include "dovetail/fanout.hpp"

namespace dovetail {
namespace {

constexpr std::size_t collected_page = 1'000;  // page size of one_by_one()

}  // namespace

FanoutCandidates::FanoutCandidates(std::vector<FanoutCandidate> all)
    : next_page_(
          [left = std::move(all), ended = false](std::vector<FanoutCandidate>& page) mutable {
            page = std::exchange(left, {});
            return !std::exchange(ended, true);
          }) {}

FanoutCandidates FanoutCandidates::in_pages(NextPage next_page) {
  if (!next_page) throw std::invalid_argument("next_page must not be empty");
  return FanoutCandidates{std::move(next_page)};
}

FanoutCandidates FanoutCandidates::one_by_one(Next next) {
  if (!next) throw std::invalid_argument("next must not be empty");
  return FanoutCandidates{
      NextPage{[next = std::move(next), ended = false](std::vector<FanoutCandidate>& page) mutable {
        page.clear();
        while (!ended && page.size() < collected_page) {
          auto candidate = next();
          if (candidate) {
            page.push_back(*std::move(candidate));
          } else {
            ended = true;
          }
        }
        return !page.empty();
      }}};
}

}  // namespace dovetail
