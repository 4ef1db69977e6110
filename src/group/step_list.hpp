// Stepped services whose steps one task makes, one after the other.
//
// Threads: run_due() and end() from one thread at a time; the services may wake it from any.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <vector>

#include "component/stepped_service.hpp"

namespace dovetail::group {

class StepList {
 public:
  /// `wake` requests a call of run_due() at that time.
  explicit StepList(component::SteppedService::Wake wake) : wake_(std::move(wake)) {}
  StepList(const StepList&) = delete;
  StepList& operator=(const StepList&) = delete;
  ~StepList() { end(); }

  /// Begins the service.
  void add(std::unique_ptr<component::SteppedService> service);
  /// Makes the steps that are due. Returns when the next one is due.
  MonoTime run_due(Clock& clock, const std::stop_token& stop);
  /// Ends the services.
  void end();

 private:
  struct Entry {
    std::unique_ptr<component::SteppedService> service;
    MonoTime due{};  // guarded by the mutex
  };

  void wake(Entry& entry, MonoTime at);

  const component::SteppedService::Wake wake_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Entry>> entries_;
};

}  // namespace dovetail::group
