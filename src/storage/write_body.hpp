// The body of a write, which may run several times.
#pragma once

#include <concepts>
#include <memory>
#include <type_traits>

namespace dovetail::storage {

class WriteSession;

/// One run of a write's body.
struct Attempt {
  int number = 1;  ///< Counts from 1.
  /// An earlier run of the same call may have taken effect: its commit is in doubt.
  bool after_doubt = false;
  /// The run right before this one is such a run.
  bool previous_in_doubt = false;
};

/// A reference to a callable `void(WriteSession&)` or `void(WriteSession&, const Attempt&)`. The
/// callable must outlive it.
class WriteBody {
 public:
  // The constraint excludes WriteBody itself, and lambdas are passed as bodies.
  // NOLINTBEGIN(bugprone-forwarding-reference-overload,google-explicit-constructor)
  template <class Body>
  requires(!std::same_as<std::remove_cvref_t<Body>, WriteBody> &&
           (std::invocable<Body&, WriteSession&> ||
            std::invocable<Body&, WriteSession&, const Attempt&>)) WriteBody(Body&& body)
      : body_(const_cast<void*>(static_cast<const void*>(std::addressof(body)))),
        call_([](void* target, WriteSession& session, const Attempt& attempt) {
          auto& callable = *static_cast<std::remove_reference_t<Body>*>(target);
          if constexpr (std::invocable<Body&, WriteSession&, const Attempt&>) {
            callable(session, attempt);
          } else {
            callable(session);
          }
        }) {}
  // NOLINTEND(bugprone-forwarding-reference-overload,google-explicit-constructor)

  void operator()(WriteSession& session, const Attempt& attempt) const {
    call_(body_, session, attempt);
  }

 private:
  void* body_;
  void (*call_)(void* target, WriteSession& session, const Attempt& attempt);
};

}  // namespace dovetail::storage
