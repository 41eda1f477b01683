/* A Raspberry Pi Pico in rp2040js, its UART0 at standard input and output: node rp2040_machine.cjs IMAGE.uf2
 *
 * It does what the chip's ROM does with flash: copies the first 256 bytes to the end of RAM and runs them. Without a ROM
 * in it, an image that calls one stops. */
'use strict';
const fs = require('fs');
const { Simulator } = require('rp2040js');

const FLASH = 0x10000000, BLOCK = 512, STAGE2_BYTES = 256, STAGE2_IN_RAM = 0x41f00, RAM = 0x20000000;
const AT_ONCE = 64; // bytes of a write, where no frame ends before

const simulator = new Simulator();
const chip = simulator.rp2040;
const image = fs.readFileSync(process.argv[2]);
for (let at = 0; at < image.length; at += BLOCK) {
    const address = image.readUInt32LE(at + 12), size = image.readUInt32LE(at + 16);
    chip.flash.set(image.subarray(at + 32, at + 32 + size), address - FLASH);
}

const going = [], coming = [];
chip.uart[0].onByte = (byte) => {
    going.push(byte);
    if (byte === 0 || going.length >= AT_ONCE) {
        fs.writeSync(1, Buffer.from(going.splice(0)));
    }
};
process.stdin.on('data', (data) => coming.push(...data));
process.stdin.on('end', () => process.exit(0));
setInterval(() => {
    const uart = chip.uart[0];
    while (coming.length > 0 && !uart.rxFIFO.full) {
        uart.feedByte(coming.shift());
    }
}, 1);

chip.sram.set(chip.flash.subarray(0, STAGE2_BYTES), STAGE2_IN_RAM);
chip.core.PC = RAM + STAGE2_IN_RAM;
chip.core.SP = RAM + STAGE2_IN_RAM;
simulator.execute();
