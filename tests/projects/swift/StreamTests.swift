// What is checked of a model that sums up what it is given: instances, streams of their own, and what they say of errors.
import XCTest

@testable import NAMEKit

final class StreamTests: XCTestCase {
    private static func inputs(_ count: Int, elements: Int = 1024) -> AsyncStream<Model.Inputs> {
        AsyncStream { continuation in
            for _ in 0..<count { continuation.yield(Model.Inputs(x: [Float](repeating: 1, count: elements))) }
            continuation.finish()
        }
    }

    func testStreams() async throws {
        let own = try Model()
        let once = Model.Inputs(x: [Float](repeating: 1, count: 1024))
        _ = try await own.run(once)
        let sums = try await withThrowingTaskGroup(of: [Float].self) { group in
            for _ in 0..<8 {
                group.addTask {
                    var sums: [Float] = []
                    for try await one in Model.stream(Self.inputs(4)) { sums.append(one.sum.elements[7]) }
                    return sums
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        XCTAssertEqual(sums, [[Float]](repeating: [1, 2, 3, 4], count: 8))
        let shared = try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<8 { group.addTask { for _ in 0..<20 { _ = try await own.run(once) } } }
            try await group.waitForAll()
            return try await own.run(once).sum.elements[0]
        }
        XCTAssertEqual(shared, 162)
        try await own.reset()
        let fresh = try await own.run(once).sum.elements[0]
        XCTAssertEqual(fresh, 1)
        do {
            for try await _ in Model.stream(Self.inputs(2, elements: 3)) { XCTFail("three elements are too few") }
            XCTFail("a stream has to fail")
        } catch {
            XCTAssertEqual((error as? ModelError)?.code, -10)
        }
        // instances that end give their memory back
        for _ in 0..<10_000 { _ = try Model() }
        for try await one in Model.stream(Self.inputs(1000)) where one.sum.elements[0] == 2 { break }
    }
}
