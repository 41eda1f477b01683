// What is checked of weights in a file: the package's own, a copy as if it was downloaded, and what is none.
import Foundation
import XCTest

@testable import NAMEKit

final class WeightsTests: XCTestCase {
    func testFilesOfWeights() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let own = try Weights.bundled()
        try own.check()
        XCTAssertTrue(own === (try Weights.bundled()))
        var bytes = Data(own.data)
        let copy = folder.appendingPathComponent(Weights.fileName)
        try bytes.write(to: copy)
        let downloaded = try Weights(contentsOf: copy)
        try downloaded.check()
        let inputs = Model.Inputs(image: (0..<64).map { Float($0) / 64 }, batch: 1)
        let want = try await Model().run(inputs).digit.elements
        let got = try await Model(weights: downloaded).run(inputs).digit.elements
        XCTAssertEqual(got, want)

        bytes[bytes.count - 1] ^= 1  // of the numbers
        let wrong = folder.appendingPathComponent("wrong")
        try bytes.write(to: wrong)
        XCTAssertThrowsError(try Weights(contentsOf: wrong).check()) { XCTAssertEqual(($0 as? ModelError)?.code, -6) }
        bytes[8] ^= 1  // of the head
        let other = folder.appendingPathComponent("other")
        try bytes.write(to: other)
        XCTAssertThrowsError(try Model(weights: Weights(contentsOf: other)))
        try bytes.dropLast().write(to: other)
        XCTAssertThrowsError(try Weights(contentsOf: other))
        XCTAssertThrowsError(try Weights(contentsOf: folder.appendingPathComponent("none"))) {
            XCTAssertTrue("\($0)".contains("none"))
        }
        XCTAssertThrowsError(try Weights(contentsOf: folder))
    }
}
