#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>

#include "dovetail/ids.hpp"

namespace dovetail::testing {

/// The ids that child processes acknowledged. They are in a pipe, which survives the children.
class Ledger {
 public:
  Ledger() { EXPECT_EQ(::pipe2(ends_, O_CLOEXEC | O_NONBLOCK), 0); }
  ~Ledger() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  void note(const Uuid& id) const {
    while (::write(ends_[1], id.bytes().data(), 16) != 16) ::usleep(100);
  }
  void collect(std::multiset<Uuid>& into) const {
    Uuid::Bytes bytes{};
    while (::read(ends_[0], bytes.data(), bytes.size()) == 16) into.insert(Uuid{bytes});
  }

 private:
  int ends_[2] = {-1, -1};
};

}  // namespace dovetail::testing
